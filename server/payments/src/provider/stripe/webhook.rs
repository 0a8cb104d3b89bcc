//! Events as Stripe signs and sends them.
//!
//! Promise: nothing of a body is read before its signature over the raw bytes and its age are proven, in constant time, with
//! every secret that is valid now. Reading is tolerant of what may be added, and strict in what money hangs on: where a charge
//! cannot be read whole, the event only says that something changed, and the payment intent is asked for. The scheme is that of
//! Stripe's documentation, "Verify webhook signatures manually".

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::Sha256;
use time::OffsetDateTime;

use super::{
    outcomes,
    units::Units,
    wire::{Charge, PaymentIntent, read},
};
use crate::{
    notice::Notice,
    provider::{
        ProviderPaymentIntentId,
        event::{EVENT_KIND_MAX_CHARS, EventRefused, ProviderEvent},
        ids::is_id,
    },
};

/// How far the time of a signature may be from ours, in seconds: what Stripe's own libraries allow for what is old, and as much
/// for clocks that differ. What is repeated within that time has the same event id.
const TOLERANCE_SECONDS: i64 = 300;
/// Longest signature header that is looked at; one with two secrets has 150 bytes.
const HEADER_MAX_BYTES: usize = 1_024;
/// Most signatures of one header that are compared; during a rotation there are two.
const SIGNATURES_MAX: usize = 8;
/// Longest time that is read, in digits: ten until the year 2286.
const TIME_MAX_DIGITS: usize = 12;

/// A secret of the endpoint, with which events are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    /// The secret as Stripe shows it, `whsec_…` and all, without the blanks that copying adds; `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let secret = text.trim();
        let rest = secret.strip_prefix("whsec_")?;
        let is_sound = rest.len() >= 10 && rest.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self(secret.to_owned()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret(…)")
    }
}

/// Proves that a body was signed with one of the secrets, and not long ago.
pub(super) fn prove(
    secrets: &[WebhookSecret],
    header: &str,
    body: &[u8],
    now: OffsetDateTime,
) -> Result<(), EventRefused> {
    if secrets.is_empty() {
        return Err(EventRefused::NotExpected);
    }
    let signed = Signed::read(header).ok_or(EventRefused::Malformed)?;

    // Every secret with every signature, whatever matched before.
    let mut matches = false;
    for WebhookSecret(secret) in secrets {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { continue };
        mac.update(signed.time_text.as_bytes());
        mac.update(b".");
        mac.update(body);
        for signature in &signed.signatures {
            matches |= mac.clone().verify_slice(signature).is_ok();
        }
    }
    if !matches {
        return Err(EventRefused::Forged);
    }
    let age = now.unix_timestamp().saturating_sub(signed.time);
    if age.saturating_abs() > TOLERANCE_SECONDS { Err(EventRefused::Untimely) } else { Ok(()) }
}

/// What a signature header says.
struct Signed<'a> {
    time_text: &'a str,
    time: i64,
    signatures: Vec<[u8; 32]>,
}

impl<'a> Signed<'a> {
    /// `t=<seconds>,v1=<hex>[,v1=<hex>…]`, in any order. Other schemes are passed over; a `v1` that is none spoils it all.
    fn read(header: &'a str) -> Option<Self> {
        if header.len() > HEADER_MAX_BYTES {
            return None;
        }
        let (mut times, mut signatures) = (Vec::new(), Vec::new());
        for part in header.split(',') {
            match part.trim().split_once('=')? {
                ("t", time) => times.push(time),
                ("v1", signature) => signatures.push(lower_hex(signature)?),
                _ => {}
            }
        }
        let [time_text] = times[..] else { return None };
        let is_time = (1..=TIME_MAX_DIGITS).contains(&time_text.len()) && time_text.bytes().all(|b| b.is_ascii_digit());
        let has_signatures = (1..=SIGNATURES_MAX).contains(&signatures.len());
        let time = time_text.parse().ok()?;
        (is_time && has_signatures).then_some(Self { time_text, time, signatures })
    }
}

fn lower_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

/// An event, as far as we read it. What is not there is no fault.
#[derive(Deserialize)]
struct Event<'a> {
    id: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    created: Option<i64>,
    #[serde(default)]
    livemode: Option<bool>,
    #[serde(borrow, default)]
    data: Option<EventData<'a>>,
}

#[derive(Deserialize)]
struct EventData<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Reads a proven body. `None`: it names no event.
pub(super) fn open(body: &[u8], now: OffsetDateTime, live: bool, units: Units) -> Option<ProviderEvent> {
    let event: Event<'_> = std::str::from_utf8(body).ok().and_then(|text| serde_json::from_str(text).ok())?;
    if !is_id(&event.id) {
        return None;
    }
    let told_at = event.created.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok()).unwrap_or(now);
    let object = event.data.as_ref().map(|data| data.object.get().as_bytes());
    let about = object.and_then(|object| about(&event.kind, object, told_at, units));
    Some(ProviderEvent {
        id: event.id,
        kind: event.kind.chars().filter(|letter| !letter.is_control()).take(EVENT_KIND_MAX_CHARS).collect(),
        told_at,
        wrong_mode: event.livemode.is_some_and(|event_is_live| event_is_live != live),
        about,
    })
}

/// What an event of this kind tells, and of which payment intent.
fn about(
    kind: &str,
    object: &[u8],
    told_at: OffsetDateTime,
    units: Units,
) -> Option<(ProviderPaymentIntentId, Notice)> {
    match kind {
        "payment_intent.succeeded" => {
            let named = named(object)?;
            let charge = read::<PaymentIntent>(object).and_then(|intent| outcomes::charge(&intent, units));
            Some((named, charge.map_or(Notice::Changed, |charge| Notice::Charged(charge.at(told_at)))))
        }
        "payment_intent.canceled" => Some((named(object)?, Notice::Cancelled)),
        "payment_intent.payment_failed" | "payment_intent.requires_action" | "payment_intent.processing" => {
            Some((named(object)?, Notice::Changed))
        }
        "charge.succeeded" => {
            let of = read::<OfPaymentIntent>(object)?;
            let named = ProviderPaymentIntentId::parse(&of.payment_intent?).ok()?;
            let charge = read::<Charge>(object).and_then(|charge| outcomes::whole_charge(&charge, units));
            Some((named, charge.map_or(Notice::Changed, Notice::Charged)))
        }
        "charge.failed" => {
            let of = read::<OfPaymentIntent>(object)?;
            Some((ProviderPaymentIntentId::parse(&of.payment_intent?).ok()?, Notice::Changed))
        }
        // Refunds and disputes: their lists tell everything, in whatever order the events come.
        _ if ["refund.", "charge.refund", "charge.dispute."].iter().any(|start| kind.starts_with(start)) => {
            let of = read::<OfPaymentIntent>(object)?;
            Some((ProviderPaymentIntentId::parse(&of.payment_intent?).ok()?, Notice::Refunds))
        }
        _ => None,
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct OfPaymentIntent {
    payment_intent: Option<String>,
}

fn named(object: &[u8]) -> Option<ProviderPaymentIntentId> {
    ProviderPaymentIntentId::parse(&read::<Named>(object)?.id).ok()
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
