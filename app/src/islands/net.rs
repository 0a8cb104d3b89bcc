//! The three calls of the checkout page: the card to the provider, Pay and the outcome to the shop.
//!
//! Promises: each call ends within its limit. An answer that cannot be read is a lost answer: *unknown*, never *failed*. Never
//! sends card data to this origin, or this origin's cookies to the provider.
//!
//! The server functions are called by their types and addresses, but not by their generated client: that one has no limit of
//! time, does not show `Retry-After`, and weighs more than this file.

use leptos::server_fn::ServerFn;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, RequestCredentials, RequestInit, Response, UrlSearchParams};

use super::dom;
use crate::{
    api,
    dto::{AnswerDto, OutcomeDto, PayDto},
    error::CheckoutError,
    fields::Checked,
    intent::machine::Event,
};

/// Until the provider must have answered for a card.
const TOKEN_LIMIT_MS: u32 = 12_000;
/// Longer than the server itself waits for an outcome before it answers "pending".
const PAY_LIMIT_MS: u32 = 20_000;
/// Longer than the server takes to look an outcome up.
const ASK_LIMIT_MS: u32 = 12_000;

/// Where the card goes.
pub struct Provider {
    pub payment_methods_url: String,
    pub publishable_key: String,
}

/// What the provider says about a card, as far as this page needs it.
#[derive(Deserialize)]
struct TokenReply {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    error: Option<TokenError>,
}

#[derive(Deserialize)]
struct TokenError {
    #[serde(default)]
    code: Option<String>,
}

/// Takes the card to the provider; the payment method comes back.
pub async fn token(provider: &Provider, card: &Checked) -> Event {
    let Some(form) = card_form(provider, card) else { return Event::TokenLost };
    let init = RequestInit::new();
    init.set_credentials(RequestCredentials::Omit);
    init.set_body(&form);
    let reply = post(&provider.payment_methods_url, &init, TOKEN_LIMIT_MS).await;
    let read = reply.filter(|reply| reply.status < 500).and_then(|reply| parse::<TokenReply>(&reply.text));
    match read {
        Some(TokenReply { id: Some(id), .. }) => Event::TokenMade(id),
        Some(TokenReply { error: Some(error), .. }) => Event::refused(&error.code.unwrap_or_default()),
        Some(_) | None => Event::TokenLost,
    }
}

/// Form-encoded and with the key in the body, so that the browser needs no preflight.
fn card_form(provider: &Provider, card: &Checked) -> Option<UrlSearchParams> {
    let form = UrlSearchParams::new().ok()?;
    for (name, value) in [
        ("key", provider.publishable_key.as_str()),
        ("type", "card"),
        ("card[number]", &card.number),
        ("card[exp_month]", &card.expiry.month.to_string()),
        ("card[exp_year]", &card.expiry.year.to_string()),
        ("card[cvc]", &card.code),
        ("billing_details[name]", &card.name),
        ("billing_details[email]", &card.email),
    ] {
        form.append(name, value);
    }
    Some(form)
}

/// Pays.
pub async fn pay(pay: PayDto) -> Result<AnswerDto, CheckoutError> {
    let reply = call(api::Pay::PATH, &api::Pay { pay }, PAY_LIMIT_MS).await.ok_or(CheckoutError::LostAnswer)?;
    if reply.status == 200 {
        return parse(&reply.text).ok_or(CheckoutError::LostAnswer);
    }
    Err(parse(&reply.text).unwrap_or(CheckoutError::LostAnswer))
}

/// Asks for the outcome. Asking never pays.
pub async fn outcome(order: String, intent: String) -> Result<OutcomeDto, CheckoutError> {
    let intent = Some(intent).filter(|intent| !intent.is_empty());
    let question = api::Outcome { order, intent };
    let reply = call(api::Outcome::PATH, &question, ASK_LIMIT_MS).await.ok_or(CheckoutError::LostAnswer)?;
    if reply.status == 200 {
        return parse(&reply.text).ok_or(CheckoutError::LostAnswer);
    }
    Err(parse(&reply.text).unwrap_or(match reply.retry_after_seconds {
        Some(retry_after_seconds) => CheckoutError::Unavailable { retry_after_seconds },
        None => CheckoutError::LostAnswer,
    }))
}

fn parse<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

async fn call(path: &str, question: &impl Serialize, limit_ms: u32) -> Option<Reply> {
    let headers = Headers::new().ok()?;
    headers.set("Content-Type", "application/json").ok()?;
    headers.set("Accept", "application/json").ok()?;
    let init = RequestInit::new();
    init.set_headers(&headers);
    init.set_body(&JsValue::from_str(&serde_json::to_string(question).ok()?));
    post(path, &init, limit_ms).await
}

struct Reply {
    status: u16,
    retry_after_seconds: Option<u32>,
    text: String,
}

/// `None`: no answer, or not whole, or not in time.
async fn post(address: &str, init: &RequestInit, limit_ms: u32) -> Option<Reply> {
    let abort = AbortController::new().ok()?;
    init.set_method("POST");
    init.set_signal(Some(&abort.signal()));
    let limit = dom::after(limit_ms, Box::new(move || abort.abort()));
    let reply = read(address, init).await;
    dom::cancel(limit);
    reply
}

async fn read(address: &str, init: &RequestInit) -> Option<Reply> {
    let answer = JsFuture::from(dom::window()?.fetch_with_str_and_init(address, init)).await.ok()?;
    let answer: Response = answer.dyn_into().ok()?;
    let retry_after_seconds = answer.headers().get("Retry-After").ok().flatten().and_then(|text| text.parse().ok());
    let text = JsFuture::from(answer.text().ok()?).await.ok()?.as_string()?;
    Some(Reply { status: answer.status(), retry_after_seconds, text })
}
