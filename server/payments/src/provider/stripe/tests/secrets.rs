//! I17: no secret, token or personal datum in a `Debug`, an error or a log.

use std::{
    io,
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

use super::{
    PAYMENT_METHOD, SECRET_KEY, Script, Scripted, answer, card_error, config, confirm_request, requires_action,
    succeeded,
};
use crate::provider::{
    CardSession, ConfirmOutcome, ContinueUrl, PaymentMethodToken, Provider,
    stripe::{SecretKey, Stripe, StripeConfig},
};

/// What nothing may show.
const PRIVATE: &[&str] = &[
    SECRET_KEY,
    "9f8e7d6c5b4a",
    PAYMENT_METHOD,
    "1a2b3c4d5e6f",
    "_secret_",
    "0f0f0f",
    "ana@",
    "Ana Test",
    "orders/tok",
];

fn assert_shows_nothing(text: &str) {
    for private in PRIVATE {
        assert!(!text.contains(private), "{private} in {text}");
    }
}

#[test]
fn i17_debug_shows_no_secret_token_or_person() {
    let config = config("http://provider.example");
    let stripe = Stripe::new(&config).unwrap();
    assert_shows_nothing(&format!("{config:?} {stripe:?} {:#?}", confirm_request(&stripe)));
    assert_shows_nothing(&format!("{:?}", PaymentMethodToken::parse(PAYMENT_METHOD).unwrap()));
    let url = ContinueUrl::parse("https://hooks.example/redirect?client_secret=src_1_secret_0f0f0f").unwrap();
    assert_shows_nothing(&format!("{:?}", ConfirmOutcome::ActionRequired { url }));
    let session = CardSession {
        payment_method: Some(PaymentMethodToken::parse(PAYMENT_METHOD).unwrap()),
        brand: Some("visa".to_owned()),
        last4: Some("4242".to_owned()),
        name: Some("Ana Test".to_owned()),
        email: Some("ana@shop.example".to_owned()),
        intent: Some("7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11".to_owned()),
        error_code: None,
    };
    assert_shows_nothing(&format!("{session:#?}"));
    assert!(!format!("{session:?}").contains("4242"));
}

#[test]
fn i17_a_bad_setting_is_named_and_not_shown() {
    let good = config("http://provider.example");
    let bad = StripeConfig { secret_key: SecretKey::new(format!("{SECRET_KEY} \n")), ..good };
    let error = Stripe::new(&bad).unwrap_err();
    assert_shows_nothing(&format!("{error} {error:?}"));
}

/// Collects what is logged on one thread, so that tests beside this one do not mix in.
#[derive(Clone)]
struct Log {
    thread: ThreadId,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if thread::current().id() == self.thread {
            self.bytes.lock().unwrap().extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Catches every event of this thread from now on. The subscriber is the process's own: with one for a thread only, another
/// thread that meets an event first switches it off for all.
fn catch_log() -> Log {
    let log = Log { thread: thread::current().id(), bytes: Arc::default() };
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    tracing::callsite::rebuild_interest_cache();
    log
}

#[tokio::test]
async fn i17_the_most_talkative_log_shows_no_secret_token_or_person() {
    let log = catch_log();
    let session = serde_json::json!({
        "id": "cs_1", "payment_method": PAYMENT_METHOD, "card": {"brand": "visa", "last4": "4242"},
        "billing_details": {"name": "Ana Test", "email": "ana@shop.example"},
    });
    let scripted = Scripted::start(vec![
        Script::Answer(answer(200, &succeeded())),
        Script::Answer(answer(402, &card_error("stolen_card"))),
        Script::Answer(answer(200, &requires_action("https://bank.example/?client_secret=a_secret_0f0f0f"))),
        Script::Answer(answer(200, &session)),
        Script::ReadThenReset,
        Script::Answer(b"HTTP/1.1 200 OK\r\nx: pm_1a2b3c4d5e6f sk_test_9f8e7d6c5b4a\x00\r\n\r\n".to_vec()),
        Script::Answer(b"pm_1a2b3c4d5e6f sk_test_9f8e7d6c5b4a\r\n\r\n".to_vec()),
    ])
    .await;
    let stripe = scripted.stripe();
    for call in 0..7 {
        if call == 3 {
            tracing::info!(outcome = ?stripe.card_session("cs_1").await);
        } else {
            tracing::info!(outcome = ?stripe.confirm(&confirm_request(&stripe)).await);
        }
    }

    let text = String::from_utf8(log.bytes.lock().unwrap().clone()).unwrap();
    assert!(text.contains("gave no answer"), "the log was caught: {text}");
    assert_shows_nothing(&text);
}
