//! The rules of the form's fields, shared by browser and server, so that both say the same sentence about the same fault.
//!
//! Promises: what a person may reasonably type, paste or autofill is read; what is refused is refused with its cause. Never
//! clears, never echoes a card number, knows no clock: the current month is a parameter.

mod card;
mod contact;
mod element;
mod expiry;
#[cfg(test)]
mod tests;

pub use card::{Brand, CardNumber, card_number, group, security_code};
pub use contact::{cardholder, email};
pub use element::{Contact, check_contact, element_fault};
pub use expiry::{Expiry, Month, expiry};

/// A field of the card form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Email,
    Number,
    Expiry,
    Code,
    Name,
}

impl Field {
    /// In the order of the page.
    pub const ALL: [Self; 5] = [Self::Email, Self::Number, Self::Expiry, Self::Code, Self::Name];

    /// The input's `name` and `id`. These never change between builds: password managers and tests hold on to them.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Number => "cardnumber",
            Self::Expiry => "exp",
            Self::Code => "cvc",
            Self::Name => "name",
        }
    }

    /// The field with this `id`.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.id() == id)
    }
}

/// What is wrong with a field: one sentence that names the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub sentence: String,
    /// Whether more typing could still mend it. Such a problem is only told on submit, never when the field is left.
    pub unfinished: bool,
}

impl Problem {
    fn wrong(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), unfinished: false }
    }

    fn unfinished(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), unfinished: true }
    }
}

/// A field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub field: Field,
    pub problem: Problem,
}

/// The form as typed.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    pub email: String,
    pub number: String,
    pub expiry: String,
    pub code: String,
    pub name: String,
}

/// The form as understood. It has no `Debug`: a card number belongs into no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Checked {
    pub email: String,
    /// Digits only.
    pub number: String,
    pub expiry: Expiry,
    /// Digits only.
    pub code: String,
    pub name: String,
}

/// Reads the whole form; all faults at once, in the order of the page.
///
/// # Errors
/// Every field with a fault.
pub fn check(typed: &Typed, now: Month) -> Result<Checked, Vec<Fault>> {
    let number = card_number(&typed.number);
    let brand = Brand::of(&typed.number);
    let results = (
        email(&typed.email),
        number,
        expiry(&typed.expiry, now),
        security_code(&typed.code, brand),
        cardholder(&typed.name),
    );
    match results {
        (Ok(email), Ok(number), Ok(expiry), Ok(code), Ok(name)) => {
            Ok(Checked { email, number: number.digits, expiry, code, name })
        }
        (email, number, expiry, code, name) => Err([
            (Field::Email, email.err()),
            (Field::Number, number.err()),
            (Field::Expiry, expiry.err()),
            (Field::Code, code.err()),
            (Field::Name, name.err()),
        ]
        .into_iter()
        .filter_map(|(field, problem)| problem.map(|problem| Fault { field, problem }))
        .collect()),
    }
}

/// What is wrong with one field alone, as when it is left or typed in.
pub fn problem_of(field: Field, typed: &Typed, now: Month) -> Option<Problem> {
    match field {
        Field::Email => email(&typed.email).err(),
        Field::Number => card_number(&typed.number).err(),
        Field::Expiry => expiry(&typed.expiry, now).err(),
        Field::Code => security_code(&typed.code, Brand::of(&typed.number)).err(),
        Field::Name => cardholder(&typed.name).err(),
    }
}

/// The decimal value of a digit in the scripts that keyboards put into number fields: ASCII, full-width, Arabic-Indic.
fn digit(character: char) -> Option<char> {
    let value = match character {
        '0'..='9' => return Some(character),
        '\u{ff10}'..='\u{ff19}' => u32::from(character) - 0xff10,
        '\u{660}'..='\u{669}' => u32::from(character) - 0x660,
        '\u{6f0}'..='\u{6f9}' => u32::from(character) - 0x6f0,
        _ => return None,
    };
    char::from_digit(value, 10)
}
