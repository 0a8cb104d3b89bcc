//! What the provider would tell of its own accord, signed as it signs.

use anyhow::Context as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{RequestBuilder, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sha2::Sha256;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::customer::Customer;

/// The secret of the shop's endpoint, for `PAYONCE_WEBHOOK_SECRETS`.
pub const SECRET: &str = "whsec_between_the_two_of_us";

/// The event that this payment intent was charged.
pub fn charged(payment_intent: &str, charge: &str, amount: i64, currency: &str) -> Value {
    json!({
        "id": format!("evt_{}", Uuid::new_v4().simple()),
        "type": "payment_intent.succeeded",
        "created": OffsetDateTime::now_utc().unix_timestamp(),
        "livemode": false,
        "data": {"object": {
            "id": payment_intent, "object": "payment_intent", "status": "succeeded", "latest_charge": charge,
            "amount": amount, "amount_received": amount, "currency": currency.to_lowercase()
        }}
    })
}

/// Delivers an event to a shop.
///
/// # Errors
/// When it cannot be signed.
pub fn delivery(customer: &Customer, shop: &str, event: &Value) -> anyhow::Result<RequestBuilder> {
    let (time, body) = (OffsetDateTime::now_utc().unix_timestamp(), event.to_string());
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).context("a key")?;
    mac.update(format!("{time}.{body}").as_bytes());
    let signature = format!("t={time},v1={}", hex::encode(mac.finalize().into_bytes()));
    let post = customer.http().post(format!("{shop}/webhooks/stripe"));
    Ok(post.header("stripe-signature", signature).header(CONTENT_TYPE, "application/json").body(body))
}
