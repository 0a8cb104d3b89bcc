//! What the network can do to a call: only what happens before the first byte is *not sent*.

use std::time::Duration;

use super::{
    Script, Scripted, answer, config, confirm_request, error, new_payment_intent, payment_intent_id, raw_answer,
    succeeded,
};
use crate::provider::{
    CardSessionOutcome, ConfirmOutcome, CreateOutcome, NotSentReason, ProbeOutcome, Provider, UnknownReason,
    stripe::{Stripe, StripeConfig, StripeConfigError},
};

/// All four calls against a server that does `script` to each connection.
async fn check(script: impl Fn() -> Script, expected: UnknownReason) {
    // hyper may put a request that it did not write on a fresh connection, so the script is there a few times more.
    let scripted = Scripted::start((0..12).map(|_| script()).collect()).await;
    let stripe = scripted.stripe();
    assert_eq!(stripe.create_payment_intent(&new_payment_intent()).await, CreateOutcome::Unknown(expected));
    assert_eq!(stripe.confirm(&confirm_request(&stripe)).await, ConfirmOutcome::Unknown(expected));
    assert_eq!(stripe.probe(&payment_intent_id()).await, ProbeOutcome::CannotTell(expected));
    assert_eq!(stripe.card_session("cs_1").await, CardSessionOutcome::Unavailable);
}

/// All four calls against an address where no connection can be made.
async fn check_not_sent(stripe: &Stripe) {
    let reason = NotSentReason::NotConnected;
    assert_eq!(stripe.create_payment_intent(&new_payment_intent()).await, CreateOutcome::NotSent(reason));
    assert_eq!(stripe.confirm(&confirm_request(stripe)).await, ConfirmOutcome::NotSent(reason));
    assert_eq!(stripe.probe(&payment_intent_id()).await, ProbeOutcome::CannotTell(UnknownReason::NotConnected));
    assert_eq!(stripe.card_session("cs_1").await, CardSessionOutcome::Unavailable);
}

#[tokio::test]
async fn b29_a_refused_connection_is_not_sent() {
    let address = {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        listener.local_addr().unwrap()
    };
    check_not_sent(&Stripe::new(&config(&format!("http://{address}"))).unwrap()).await;
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_not_sent() {
    // A label of 64 letters cannot exist, so that no resolver has to be asked.
    let host = format!("{}.invalid", "a".repeat(64));
    check_not_sent(&Stripe::new(&config(&format!("http://{host}"))).unwrap()).await;
}

#[tokio::test]
async fn a_failed_tls_handshake_is_not_sent() {
    let scripted = Scripted::start((0..8).map(|_| Script::CloseAtOnce).collect()).await;
    match Stripe::new(&config(&format!("https://{}", scripted.address))) {
        Ok(stripe) => check_not_sent(&stripe).await,
        // Where the system has no root certificates, https is refused at the start, which is as good.
        Err(error) => assert_eq!(error, StripeConfigError::Client),
    }
}

#[tokio::test]
async fn a_tls_handshake_that_never_ends_is_not_sent() {
    let scripted = Scripted::start((0..8).map(|_| Script::AnswerThenHang(Vec::new())).collect()).await;
    let config = StripeConfig {
        connect_timeout: Duration::from_millis(300),
        ..config(&format!("https://{}", scripted.address))
    };
    match Stripe::new(&config) {
        Ok(stripe) => {
            let outcome = stripe.confirm(&confirm_request(&stripe)).await;
            assert_eq!(outcome, ConfirmOutcome::NotSent(NotSentReason::NotConnected));
        }
        Err(error) => assert_eq!(error, StripeConfigError::Client),
    }
}

#[tokio::test]
async fn a_connection_closed_at_once_is_unknown() {
    check(|| Script::CloseAtOnce, UnknownReason::ConnectionLost).await;
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_unknown() {
    check(|| Script::ReadThenClose, UnknownReason::ConnectionLost).await;
}

#[tokio::test]
async fn a_reset_is_unknown() {
    check(|| Script::ReadThenReset, UnknownReason::ConnectionLost).await;
}

#[tokio::test]
async fn half_a_body_is_unknown_even_of_a_success() {
    let whole = answer(200, &succeeded());
    let half = whole[..whole.len() - 40].to_vec();
    check(|| Script::Answer(half.clone()), UnknownReason::ConnectionLost).await;
}

#[tokio::test]
async fn half_a_body_without_a_length_is_unknown() {
    let body = succeeded().to_string();
    let half = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", &body[..body.len() / 2]);
    check(|| Script::Answer(half.clone().into_bytes()), UnknownReason::Unreadable).await;
}

#[tokio::test]
async fn what_is_no_http_is_unknown() {
    check(|| Script::Answer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()), UnknownReason::ConnectionLost).await;
}

#[tokio::test]
async fn a_page_of_html_with_status_200_is_unknown() {
    let page = raw_answer(200, "text/html", b"<html><body>Welcome to the hotel's network</body></html>");
    check(|| Script::Answer(page.clone()), UnknownReason::Unreadable).await;
}

#[tokio::test]
async fn an_empty_body_with_status_200_is_unknown() {
    check(|| Script::Answer(raw_answer(200, "application/json", b"")), UnknownReason::Unreadable).await;
}

#[tokio::test]
async fn a_fault_of_the_provider_is_unknown_whatever_its_body() {
    check(|| Script::Answer(raw_answer(502, "text/html", b"<h1>Bad Gateway</h1>")), UnknownReason::ServerFault).await;
    check(|| Script::Answer(answer(500, &error("api_error", None))), UnknownReason::ServerFault).await;
    check(|| Script::Answer(answer(503, &error("card_error", Some("card_declined")))), UnknownReason::ServerFault)
        .await;
}

#[tokio::test]
async fn a_redirect_is_unknown_and_not_followed() {
    let elsewhere = Scripted::start(vec![Script::Answer(answer(200, &succeeded()))]).await;
    let redirect = format!("HTTP/1.1 307 Text\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n", elsewhere.address)
        .into_bytes();
    check(|| Script::Answer(redirect.clone()), UnknownReason::Unreadable).await;
    let mut elsewhere = elsewhere;
    assert_eq!(elsewhere.received(), Vec::<String>::new());
}

#[tokio::test]
async fn a_huge_body_is_unknown_and_not_read_to_its_end() {
    let mut body = succeeded();
    body["description"] = "x".repeat(300 * 1024).into();
    let huge = answer(200, &body);
    check(|| Script::Answer(huge.clone()), UnknownReason::Unreadable).await;
}

#[tokio::test]
async fn no_answer_within_the_deadline_is_unknown() {
    let scripted = Scripted::start(vec![Script::AnswerThenHang(Vec::new())]).await;
    let stripe = scripted.impatient_stripe();
    let outcome = stripe.confirm(&confirm_request(&stripe)).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::TimedOut));
}

#[tokio::test]
async fn a_body_slower_than_the_deadline_is_unknown() {
    let whole = answer(200, &succeeded());
    let most = whole[..whole.len() - 1].to_vec();
    let scripted = Scripted::start(vec![Script::AnswerThenHang(most)]).await;
    let stripe = scripted.impatient_stripe();
    let outcome = stripe.confirm(&confirm_request(&stripe)).await;
    assert_eq!(outcome, ConfirmOutcome::Unknown(UnknownReason::TimedOut));
}

#[tokio::test]
async fn a_confirm_is_sent_once_whatever_happens_to_it() {
    for script in [Script::ReadThenClose, Script::ReadThenReset, Script::Answer(raw_answer(503, "text/plain", b"busy"))]
    {
        let mut scripted = Scripted::start(vec![script, Script::Answer(answer(200, &succeeded()))]).await;
        let stripe = scripted.stripe();
        let outcome = stripe.confirm(&confirm_request(&stripe)).await;
        assert!(matches!(outcome, ConfirmOutcome::Unknown(_)), "{outcome:?}");
        assert_eq!(scripted.received().len(), 1);
    }
}
