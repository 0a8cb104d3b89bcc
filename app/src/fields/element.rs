//! The form whose card fields are the provider's: ours are the e-mail address and the name, and its faults are told in our words.
//!
//! Promise: what the provider's fields say is looked up by its code; no text of theirs gets into the page. Never: nothing here
//! sees a card number.

use super::{Fault, Field, Problem, Typed, cardholder, email};

/// What a person fills in beside the provider's card fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub email: String,
    pub name: String,
}

/// Reads our part of the form; all faults at once, in the order of the page. `card` is what is known to be wrong with the
/// provider's part already.
///
/// # Errors
/// Every field with a fault.
pub fn check_contact(typed: &Typed, card: Option<&str>) -> Result<Contact, Vec<Fault>> {
    let card = card.map_or(Ok(()), |sentence| Err(Problem::wrong(sentence)));
    match (email(&typed.email), card, cardholder(&typed.name)) {
        (Ok(email), Ok(()), Ok(name)) => Ok(Contact { email, name }),
        (email, card, name) => {
            Err([(Field::Email, email.err()), (Field::Number, card.err()), (Field::Name, name.err())]
                .into_iter()
                .filter_map(|(field, problem)| problem.map(|problem| Fault { field, problem }))
                .collect())
        }
    }
}

/// The fault behind an error of the provider's script. `None`: no field can mend it.
pub fn element_fault(kind: &str, code: &str) -> Option<Fault> {
    if !matches!(kind, "validation_error" | "card_error") {
        return None;
    }
    if code == "email_invalid" {
        return Some(Fault { field: Field::Email, problem: Problem::wrong("Check the e-mail address") });
    }
    let sentence = match code {
        "incomplete_number" => "Enter the whole card number",
        "invalid_number" | "incorrect_number" => "Check the card number: one digit looks wrong",
        "incomplete_expiry" => "Enter the expiry date",
        "invalid_expiry_month" => "Expiry month must be 01 to 12",
        "invalid_expiry_month_past" | "invalid_expiry_year_past" | "invalid_expiry_year" | "expired_card" => {
            "Check the expiry date: this card would have expired"
        }
        "incomplete_cvc" => "Enter the security code",
        "invalid_cvc" | "incorrect_cvc" => "Check the security code",
        "incomplete_zip" | "invalid_zip" | "incorrect_zip" => "Check the postcode",
        _ if kind == "card_error" => "This card is not taken here: use another one",
        _ => "Check the card details: something is missing or wrong",
    };
    Some(Fault { field: Field::Number, problem: Problem::wrong(sentence) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(email: &str, name: &str) -> Typed {
        Typed { email: email.to_owned(), name: name.to_owned(), ..Typed::default() }
    }

    #[test]
    fn our_part_is_whole_without_a_card() {
        let contact = check_contact(&typed(" ana@example.org ", "Ana Example"), None);
        assert_eq!(contact, Ok(Contact { email: "ana@example.org".into(), name: "Ana Example".into() }));
    }

    #[test]
    fn all_faults_come_at_once_in_the_order_of_the_page() {
        let faults = check_contact(&typed("", ""), Some("Enter the card details")).expect_err("nothing is filled in");
        let fields: Vec<_> = faults.iter().map(|fault| fault.field).collect();
        assert_eq!(fields, [Field::Email, Field::Number, Field::Name]);
        assert_eq!(faults[1].problem.sentence, "Enter the card details");
    }

    #[test]
    fn faults_of_the_card_are_told_in_our_words_and_all_others_are_ours() {
        let sentence = |kind, code| element_fault(kind, code).map(|fault| (fault.field, fault.problem.sentence));
        for (kind, code, expected) in [
            ("validation_error", "incomplete_number", "Enter the whole card number"),
            ("validation_error", "invalid_expiry_year_past", "Check the expiry date: this card would have expired"),
            ("card_error", "incorrect_number", "Check the card number: one digit looks wrong"),
            ("card_error", "card_declined", "This card is not taken here: use another one"),
            ("validation_error", "a_code_of_tomorrow", "Check the card details: something is missing or wrong"),
        ] {
            assert_eq!(sentence(kind, code), Some((Field::Number, expected.to_owned())), "{kind} {code}");
        }
        assert_eq!(sentence("card_error", "email_invalid").map(|(field, _)| field), Some(Field::Email));
        for kind in ["api_connection_error", "api_error", "invalid_request_error", "rate_limit_error", ""] {
            assert_eq!(sentence(kind, "incorrect_number"), None, "{kind}");
        }
    }
}
