//! The three calls of the checkout page: the card to the provider, Pay and the outcome to the shop.
//!
//! Promises: each call ends within its limit. An answer that cannot be read is a lost answer: *unknown*, never *failed*. Never
//! sends card data to this origin, or this origin's cookies to the provider.
//!
//! The server functions are called at their addresses, but not by their generated client: that one has no limit of time, does
//! not show `Retry-After`, and weighs more than this file.

use leptos::server_fn::ServerFn;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, RequestCredentials, RequestInit, Response, UrlSearchParams};

use super::dom;
use crate::{
    api,
    dto::{AnswerDto, OutcomeDto, PayDto},
    error::CheckoutError,
    fields::Checked,
    intent::{
        machine::Event,
        wire::{self, Node},
    },
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

/// Takes the card to the provider; the payment method comes back.
pub async fn token(provider: &Provider, card: &Checked) -> Event {
    let Some(form) = card_form(provider, card) else { return Event::TokenLost };
    let init = RequestInit::new();
    init.set_credentials(RequestCredentials::Omit);
    init.set_body(&form);
    let reply = post(&provider.payment_methods_url, &init, TOKEN_LIMIT_MS).await;
    let Some(said) = reply.filter(|reply| reply.status < 500).and_then(|reply| parse(&reply.text)) else {
        return Event::TokenLost;
    };
    let error = said.get("error");
    match (said.get("id").and_then(|id| id.text()), error) {
        (Some(id), None) => Event::TokenMade(id),
        (_, Some(error)) => Event::refused(&error.get("code").and_then(|code| code.text()).unwrap_or_default()),
        (None, None) => Event::TokenLost,
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
pub async fn pay(pay: &PayDto) -> Result<AnswerDto, CheckoutError> {
    let reply = call(api::Pay::PATH, &wire::pay_body(pay), PAY_LIMIT_MS).await.ok_or(CheckoutError::LostAnswer)?;
    let said = parse(&reply.text).ok_or(CheckoutError::LostAnswer)?;
    if reply.status == 200 {
        return wire::answer(&said).ok_or(CheckoutError::LostAnswer);
    }
    Err(wire::error(&said).unwrap_or(CheckoutError::LostAnswer))
}

/// Asks for the outcome. Asking never pays.
pub async fn outcome(order: &str, intent: &str) -> Result<OutcomeDto, CheckoutError> {
    let question = wire::question_body(order, intent);
    let reply = call(api::Outcome::PATH, &question, ASK_LIMIT_MS).await.ok_or(CheckoutError::LostAnswer)?;
    let said = parse(&reply.text);
    if reply.status == 200 {
        return said.and_then(|said| wire::outcome(&said)).map(in_local_time).ok_or(CheckoutError::LostAnswer);
    }
    Err(said.and_then(|said| wire::error(&said)).unwrap_or(match reply.retry_after_seconds {
        Some(retry_after_seconds) => CheckoutError::Unavailable { retry_after_seconds },
        None => CheckoutError::LostAnswer,
    }))
}

/// The outcome with its moment as this customer's clock shows it.
pub fn in_local_time(mut outcome: OutcomeDto) -> OutcomeDto {
    if let Some(moment) = &mut outcome.decide_by {
        // Up to the next minute: what is promised must not be over before the minute that names it.
        let at = js_sys::Date::new(&JsValue::from_str(&moment.at));
        at.set_utc_seconds(60);
        if let Some(local) = at.to_time_string().as_string().as_deref().and_then(|time| time.get(..5)) {
            local.clone_into(&mut moment.display);
        }
    }
    outcome
}

/// The browser's own JSON reader.
pub fn parse(text: &str) -> Option<JsValue> {
    js_sys::JSON::parse(text).ok()
}

impl Node for JsValue {
    fn get(&self, name: &str) -> Option<Self> {
        // Fails for what is no object.
        let member = js_sys::Reflect::get(self, &Self::from_str(name)).ok()?;
        (!member.is_null() && !member.is_undefined()).then_some(member)
    }

    fn text(&self) -> Option<String> {
        self.as_string()
    }

    /// By way of its digits, which are whole up to 2^53; the server compares every amount anyway.
    fn integer(&self) -> Option<i64> {
        let number: &js_sys::Number = self.dyn_ref()?;
        number.to_string_with_radix(10).ok()?.as_string()?.parse().ok()
    }

    fn truth(&self) -> Option<bool> {
        self.as_bool()
    }
}

async fn call(path: &str, body: &str, limit_ms: u32) -> Option<Reply> {
    let headers = Headers::new().ok()?;
    headers.set("Content-Type", "application/json").ok()?;
    headers.set("Accept", "application/json").ok()?;
    let init = RequestInit::new();
    init.set_headers(&headers);
    init.set_body(&JsValue::from_str(body));
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
