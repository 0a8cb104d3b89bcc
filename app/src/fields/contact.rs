//! The payer's e-mail address and the name on the card.
//!
//! Promises: an address that mail can be sent to is accepted as it is, apart from blanks around it; nothing accepted can break
//! out of a mail header. Names are of any script. Never "corrects" anything inside.

use super::Problem;

/// The longest address that SMTP can carry. It counts bytes, of which a letter outside ASCII has more than one.
const EMAIL_MAX_BYTES: usize = 254;
/// The longest name the provider and the page take.
const NAME_MAX_CHARS: usize = 200;

/// Reads an e-mail address: blanks around it go, `+` and letters of any script stay.
///
/// # Errors
/// The sentence to show.
pub fn email(typed: &str) -> Result<String, Problem> {
    let address = typed.trim();
    if address.is_empty() {
        return Err(Problem::unfinished("Enter your e-mail address"));
    }
    if address.chars().any(|c| matches!(c, ',' | ';')) || address.matches('@').count() > 1 {
        return Err(Problem::wrong("Enter one e-mail address only"));
    }
    if address.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Problem::wrong("E-mail address must not contain spaces"));
    }
    if let Some(odd) = address.chars().find(|c| matches!(c, '<' | '>' | '(' | ')' | '"' | '\\' | '[' | ']' | ':')) {
        let mut sentence = String::from("E-mail address must not contain ");
        sentence.push(odd);
        return Err(Problem::wrong(sentence));
    }
    if address.len() > EMAIL_MAX_BYTES {
        return Err(Problem::wrong("E-mail address is too long: 254 characters at most"));
    }
    let Some((mailbox, host)) = address.split_once('@') else {
        return Err(Problem::unfinished("E-mail address needs an @"));
    };
    if mailbox.is_empty() {
        return Err(Problem::wrong("E-mail address needs a name before the @"));
    }
    if host.is_empty() {
        return Err(Problem::unfinished("E-mail address needs a domain after the @, like example.org"));
    }
    if !host.contains('.') {
        return Err(Problem::unfinished("E-mail address needs a dot after the @, like example.org"));
    }
    if host.split('.').any(str::is_empty) || mailbox.split('.').any(str::is_empty) {
        return Err(Problem::wrong("E-mail address has a dot in the wrong place"));
    }
    Ok(address.to_owned())
}

/// Reads the name on the card: any script, 1 to 200 characters.
///
/// # Errors
/// The sentence to show.
pub fn cardholder(typed: &str) -> Result<String, Problem> {
    let name = typed.trim();
    if name.is_empty() {
        return Err(Problem::unfinished("Enter the name on the card"));
    }
    if name.chars().count() > NAME_MAX_CHARS {
        return Err(Problem::wrong("Name on the card is too long: 200 characters at most"));
    }
    if name.chars().any(char::is_control) {
        return Err(Problem::wrong("Name on the card must be on one line"));
    }
    Ok(name.to_owned())
}
