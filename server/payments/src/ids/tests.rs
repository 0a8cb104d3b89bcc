//! Names of things: one spelling, one id, whatever somebody sends.

use std::collections::HashSet;

use proptest::prelude::*;
use time::OffsetDateTime;

use super::{CartId, Email, Ids, IntentId, OrderToken, Sku};
use crate::limits::MAX_EMAIL_BYTES;

const K1: &str = "3b241101-e2bb-4255-8caf-4136c566a962";

#[test]
fn b27_an_intent_has_one_spelling_but_for_letter_case() {
    let intent = IntentId::parse(K1).expect("the usual form");
    assert_eq!(IntentId::parse(&K1.to_uppercase()), Ok(intent));
    assert_eq!(intent.to_string(), K1);

    let long = "a".repeat(256);
    let without_hyphens = K1.replace('-', "");
    let with_nul = format!("{}\0", &K1[..35]);
    for text in [
        "",
        " ",
        &long,
        &without_hyphens,
        &with_nul,
        &format!("{{{K1}}}"),
        &format!("urn:uuid:{K1}"),
        &format!(" {K1}"),
        &format!("{K1}\n"),
        &format!("{K1}, {K1}"),
        "undefined",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        // Versions 1 and 7, and version 4 with the variants of NCS and Microsoft.
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "3b241101-e2bb-4255-0caf-4136c566a962",
        "3b241101-e2bb-4255-ccaf-4136c566a962",
        "3b241101e2bb-4255-8caf-4136c566a962-",
    ] {
        assert!(IntentId::parse(text).is_err(), "{text:?}");
        assert!(CartId::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn new_names_are_of_their_form_and_differ() {
    let ids = Ids::secure();
    let mut seen = HashSet::new();
    for _ in 0..1_000 {
        assert!(IntentId::parse(&ids.intent().to_string()).is_ok());
        let token = ids.order_token();
        assert_eq!(OrderToken::parse(token.expose()), Ok(token.clone()));
        assert!(seen.insert(token), "131 random bits do not repeat");
        let reference = ids.reference();
        assert_eq!((reference.as_str().len(), &reference.as_str()[4..5]), (9, "-"));
    }
    assert!(OrderToken::parse("0123456789abcdefABCDE").is_err());
    assert!(OrderToken::parse("0123456789abcdefABCDE/").is_err());
}

#[test]
fn seeded_names_repeat_and_orders_sort_by_time() {
    assert_eq!(Ids::seeded(7).intent(), Ids::seeded(7).intent());
    let ids = Ids::seeded(7);
    let early = ids.order(OffsetDateTime::UNIX_EPOCH);
    let late = ids.order(OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(1));
    assert!(early < late);
    assert_eq!(early.as_uuid().get_version_num(), 7);
}

#[test]
fn capabilities_and_people_do_not_show_in_debug() {
    let token = Ids::seeded(1).order_token();
    assert!(!format!("{token:?}").contains(token.expose()));
    let email = Email::parse("ana@example.org").expect("an address");
    assert!(!format!("{email:?}").contains("ana"));
}

#[test]
fn addresses_and_skus_that_cannot_be_are_refused() {
    for text in ["", "a", "@", "a@", "@b", "a b@c", "a@b\n.c", "a@b\0", &format!("{}@b", "a".repeat(254))] {
        assert!(Email::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "-a", "Mug", "mug ", "mug/..", &"a".repeat(41)] {
        assert!(Sku::parse(text).is_err(), "{text:?}");
    }
    assert!(Sku::parse("mug-2").is_ok());
}

/// Anything, and what is nearly right.
fn nearly(form: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        form,
        form.prop_flat_map(|text| (Just(text), any::<prop::sample::Index>(), any::<char>())).prop_map(
            |(text, at, other)| {
                let mut characters: Vec<char> = text.chars().collect();
                if let Some(place) = characters.get_mut(at.index(text.chars().count().max(1))) {
                    *place = other;
                }
                characters.into_iter().collect()
            }
        )
    ]
}

proptest! {
    /// An intent that is taken is a version 4 UUID, and has no other spelling than its own in either case.
    #[test]
    fn an_intent_that_is_taken_reads_back_as_itself(
        text in prop_oneof![nearly("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"), "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"]
    ) {
        if let Ok(intent) = IntentId::parse(&text) {
            prop_assert_eq!(intent.to_string(), text.to_ascii_lowercase());
            prop_assert_eq!(IntentId::parse(&intent.to_string()), Ok(intent));
            prop_assert_eq!(intent.as_uuid().get_version_num(), 4);
            prop_assert_eq!(CartId::parse(&text).map(CartId::as_uuid), Ok(intent.as_uuid()));
        }
    }

    #[test]
    fn every_version_4_uuid_in_its_usual_form_is_taken(bytes: [u8; 16], upper: bool) {
        let text = uuid::Builder::from_random_bytes(bytes).into_uuid().to_string();
        let text = if upper { text.to_ascii_uppercase() } else { text };
        prop_assert!(IntentId::parse(&text).is_ok(), "{text}");
    }

    /// A token goes into addresses, cookies and pages as it is, so that nothing but letters and digits may be in it.
    #[test]
    fn a_token_that_is_taken_needs_no_escape_anywhere(text in nearly("[0-9A-Za-z]{22}")) {
        if let Ok(token) = OrderToken::parse(&text) {
            prop_assert_eq!(token.expose(), &text);
            prop_assert!(text.len() == 22 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text:?}");
        }
    }

    #[test]
    fn a_sku_that_is_taken_needs_no_escape_anywhere(text in nearly("[a-z0-9-]{1,40}")) {
        if let Ok(sku) = Sku::parse(&text) {
            prop_assert_eq!(sku.as_str(), &text);
            prop_assert!(text.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphanumeric()), "{text:?}");
        }
    }

    /// An address that is taken is one line of mail: nothing in it ends a header, and what was typed inside stays.
    #[test]
    fn an_address_that_is_taken_breaks_out_of_nothing(text in nearly(" ?[a-z.+]{1,9}@[a-zé.-]{1,9} ?")) {
        if let Ok(email) = Email::parse(&text) {
            prop_assert_eq!(email.as_str(), text.trim());
            prop_assert_eq!(Email::parse(email.as_str()), Ok(email.clone()));
            prop_assert!(!email.as_str().chars().any(|c| c.is_control() || c.is_whitespace()), "{text:?}");
            prop_assert!(email.as_str().len() <= MAX_EMAIL_BYTES);
        }
    }
}
