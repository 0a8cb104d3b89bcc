//! What an event proves, and what it does not.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::{super::units::Units, HEADER_MAX_BYTES, TOLERANCE_SECONDS, WebhookSecret, open, prove};
use crate::{
    money::{Currency, Money},
    notice::Notice,
    provider::{ProviderCharge, ProviderChargeId, event::EventRefused},
};

const SECRET: &str = "whsec_test_0123456789";
const TIME: i64 = 1_767_225_600;
const UNITS: Units = Units { exceptions: true };

fn at(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).expect("a time")
}

fn secrets(texts: &[&str]) -> Vec<WebhookSecret> {
    texts.iter().map(|text| WebhookSecret::parse(text).expect("a secret")).collect()
}

/// RFC 2104 by its text, so that the library is held to something else than itself.
fn hmac_by_the_book(key: &[u8], message: &[u8]) -> String {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    hex::encode(Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize())
}

fn signature(secret: &str, time: i64, body: &[u8]) -> String {
    hmac_by_the_book(secret.as_bytes(), &[time.to_string().as_bytes(), b".", body].concat())
}

fn header(secret: &str, time: i64, body: &[u8]) -> String {
    format!("t={time},v1={}", signature(secret, time, body))
}

/// The signature is over the received bytes, not over what a parser makes of them.
#[test]
fn b68_the_raw_bytes_are_what_is_signed() {
    let body = b"{\"id\": \"evt_A1\",\n  \"type\": \"payment.succeeded\", \"amount\": 4990, \"currency\": \"EUR\"}";
    let header = format!("t={TIME},v1=bb797e182fee65f6af78a66e898d45f336f07eae85f8bac5e41c896ef8a1d0b9");
    assert_eq!(prove(&secrets(&[SECRET]), &header, body, at(TIME)), Ok(()));
    assert_eq!(open(body, at(TIME), false, UNITS).expect("an event").id, "evt_A1");

    let compact = br#"{"id":"evt_A1","type":"payment.succeeded","amount":4990,"currency":"EUR"}"#;
    assert_eq!(prove(&secrets(&[SECRET]), &header, compact, at(TIME)), Err(EventRefused::Forged));
}

#[test]
fn b70_b71_what_is_too_old_or_from_the_future_is_refused() {
    for (age, expected) in [
        (0, Ok(())),
        (TOLERANCE_SECONDS - 1, Ok(())),
        (TOLERANCE_SECONDS, Ok(())),
        (TOLERANCE_SECONDS + 1, Err(EventRefused::Untimely)),
        (-60, Ok(())),
        (-400, Err(EventRefused::Untimely)),
    ] {
        assert_eq!(prove(&secrets(&[SECRET]), &header(SECRET, TIME, b"{}"), b"{}", at(TIME + age)), expected, "{age}");
    }
}

#[test]
fn w4_twenty_forgeries_are_refused() {
    let body = br#"{"id":"evt_1"}"#;
    let right = signature(SECRET, TIME, body);
    let other = signature("whsec_another_secret", TIME, body);
    let forged: Vec<String> = vec![
        String::new(),
        "t=1767225600".to_owned(),
        format!("v1={right}"),
        format!("t={TIME}"),
        format!("t={TIME},v0={right}"),
        format!("t={TIME},v1={other}"),
        format!("t={TIME},v1={}", right.to_uppercase()),
        format!("t={TIME},v1={}", &right[..63]),
        format!("t={TIME},v1={right}0"),
        format!("t={TIME},v1="),
        format!("t={TIME},v1={}", "0".repeat(64)),
        format!("t=-{TIME},v1={right}"),
        format!("t=+{TIME},v1={right}"),
        format!("t=abc,v1={right}"),
        format!("t=,v1={right}"),
        format!("t=9999999999999999999,v1={right}"),
        format!("t={TIME},t={TIME},v1={right}"),
        format!("t={},v1={right}", TIME + 1),
        format!("t = {TIME};v1={right}"),
        format!("t={TIME} v1={right}"),
        format!("t={TIME},v1={}", [other.as_str(); 9].join(",v1=")),
        format!("t={TIME},v1={right},{}", "v0=0,".repeat(HEADER_MAX_BYTES / 5)),
        format!("t={TIME},v1={}", signature("", TIME, body)),
    ];
    assert!(forged.len() >= 20);
    for header in &forged {
        let refused = prove(&secrets(&[SECRET]), header, body, at(TIME));
        assert!(matches!(refused, Err(EventRefused::Malformed | EventRefused::Forged)), "{header}: {refused:?}");
    }
    assert_eq!(prove(&secrets(&[SECRET]), &format!("t={TIME},v1={right}"), b"{}", at(TIME)), Err(EventRefused::Forged));
    assert_eq!(prove(&secrets(&[SECRET]), &format!("v1={right},v1={other},t={TIME},v0=x"), body, at(TIME)), Ok(()));
}

#[test]
fn w6_while_secrets_are_rotated_both_are_taken() {
    let (old, new) = ("whsec_of_last_year", "whsec_of_this_year");
    for secret in [old, new] {
        let header = header(secret, TIME, b"{}");
        assert_eq!(prove(&secrets(&[new, old]), &header, b"{}", at(TIME)), Ok(()));
    }
    assert_eq!(prove(&secrets(&[new]), &header(old, TIME, b"{}"), b"{}", at(TIME)), Err(EventRefused::Forged));
    assert_eq!(prove(&[], &header(new, TIME, b"{}"), b"{}", at(TIME)), Err(EventRefused::NotExpected));
}

#[test]
fn b73_a_secret_is_taken_without_the_blanks_around_it_and_only_in_its_form() {
    assert_eq!(WebhookSecret::parse(&format!("{SECRET}\n")), WebhookSecret::parse(SECRET));
    for wrong in
        ["", "whsec_", "whsec_short", "sk_test_0123456789", "Bearer whsec_test_0123456789", "whsec_two words here"]
    {
        assert_eq!(WebhookSecret::parse(wrong), None, "{wrong}");
    }
    assert!(!format!("{:?}", WebhookSecret::parse(SECRET)).contains("0123456789"));
}

fn opened(event: &serde_json::Value) -> Option<(String, Notice)> {
    let event = open(event.to_string().as_bytes(), at(TIME), false, UNITS).expect("an event");
    event.about.map(|(payment_intent, notice)| (payment_intent.to_string(), notice))
}

/// A newer version of the API sends longer values, other types, more members: nothing of that may stand in money's way.
#[test]
fn b81_what_may_be_added_is_passed_over() {
    let long = "x".repeat(40);
    let event = serde_json::json!({
        "id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "created": TIME, "livemode": false,
        "api_version": 7, "new_member": {"deep": [1, {"er": null}]},
        "data": {"object": {
            "id": "pi_1", "object": "payment_intent", "amount": 4990, "amount_received": 4990, "currency": "eur",
            "status": "succeeded", "latest_charge": "ch_1", "payment_method_type": long, "description": 12
        }}
    });
    let (payment_intent, notice) = opened(&event).expect("a notice");
    assert_eq!(payment_intent, "pi_1");
    let money = Money::new(4990, Currency::parse("EUR").expect("a currency"));
    let id = ProviderChargeId::parse("ch_1").expect("an id");
    assert_eq!(notice, Notice::Charged(ProviderCharge { id, money, created: Some(at(TIME)) }));
}

/// What cannot be read whole proves no charge: the payment intent is asked for.
#[test]
fn money_that_contradicts_itself_only_makes_us_look() {
    let object = |change: &[(&str, serde_json::Value)]| {
        let mut object = serde_json::json!({
            "id": "pi_1", "object": "payment_intent", "amount": 4990, "amount_received": 4990, "currency": "eur",
            "status": "succeeded", "latest_charge": "ch_1"
        });
        for (name, value) in change {
            object[*name] = value.clone();
        }
        serde_json::json!({"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": object}})
    };
    assert!(matches!(opened(&object(&[])), Some((_, Notice::Charged(_)))));
    for change in [
        ("amount_received", serde_json::json!(10)),
        ("amount", serde_json::json!(-4990)),
        ("amount", serde_json::json!("4990")),
        ("currency", serde_json::json!("dust")),
        ("status", serde_json::json!("processing")),
        ("latest_charge", serde_json::Value::Null),
        ("object", serde_json::json!("charge")),
    ] {
        assert_eq!(
            opened(&object(std::slice::from_ref(&change))),
            Some(("pi_1".to_owned(), Notice::Changed)),
            "{change:?}"
        );
    }
}

#[test]
fn b74_an_event_says_of_which_mode_it_is() {
    for (event_is_live, shop_is_live, wrong) in
        [(Some(true), false, true), (Some(false), true, true), (Some(true), true, false), (None, true, false)]
    {
        let body = serde_json::json!({"id": "evt_1", "livemode": event_is_live}).to_string();
        let body = if event_is_live.is_none() { r#"{"id":"evt_1"}"#.to_owned() } else { body };
        let event = open(body.as_bytes(), at(TIME), shop_is_live, UNITS).expect("an event");
        assert_eq!(event.wrong_mode, wrong);
    }
}

proptest! {
    /// The library and the book say the same of every secret, time and body, and one changed bit is refused.
    #[test]
    fn every_true_signature_is_proven_and_every_changed_one_refused(
        secret in "whsec_[!-~]{10,80}", time in 0_i64..9_999_999_999, body in proptest::collection::vec(any::<u8>(), 0..300),
        at_bit in 0_usize..256,
    ) {
        let own = [WebhookSecret::parse(&secret).expect("a secret")];
        let right = signature(&secret, time, &body);
        let proven = prove(&own, &format!("t={time},v1={right}"), &body, at(time));
        prop_assert_eq!(proven, Ok(()));

        let mut bytes = hex::decode(&right).expect("hex");
        bytes[at_bit / 8] ^= 1 << (at_bit % 8);
        let refused = prove(&own, &format!("t={time},v1={}", hex::encode(bytes)), &body, at(time));
        prop_assert_eq!(refused, Err(EventRefused::Forged));
        let mut longer = body.clone();
        longer.push(b' ');
        let refused = prove(&own, &format!("t={time},v1={right}"), &longer, at(time));
        prop_assert_eq!(refused, Err(EventRefused::Forged));
    }

    /// Whatever is in the header or the body: an answer, never a panic, and nothing proven.
    #[test]
    fn nothing_unsigned_is_ever_proven(header in "[ -~]{0,200}", body in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(prove(&secrets(&[SECRET]), &header, &body, at(TIME)).is_err());
        let _opened = open(&body, at(TIME), false, UNITS);
    }
}
