//! Answers, and the archive of those that are final.
//!
//! An [`Archive`] can be made from a charge, a decline or a proof, and from nothing else: there is no way from "unknown" to one.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    ids::IntentId,
    intent::{ProvenNotCharged, Standing},
    money::Money,
    provider::{ContinueUrl, Decline, DeclineReason, ProviderChargeId},
};

/// Content type of every answer.
pub(crate) const JSON: &str = "application/json";

/// What a client is told, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status: 200 succeeded, 402 failed, 202 pending.
    pub status: u16,
    /// HTTP content type.
    pub content_type: Cow<'static, str>,
    /// HTTP body.
    pub body: Bytes,
}

/// A final answer. Repeated byte for byte for as long as the key lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive(Answer);

impl Archive {
    /// "Paid", from the provider's charge.
    pub(crate) fn of_charge(
        intent: IntentId,
        money: Money,
        charge: &ProviderChargeId,
        paid_at: OffsetDateTime,
    ) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            intent: String,
            state: &'a str,
            amount: i64,
            currency: &'a str,
            charge: &'a str,
            paid_at: String,
        }
        Self(answer(
            200,
            &Body {
                intent: intent.to_string(),
                state: "SUCCEEDED",
                amount: money.minor,
                currency: money.currency.code(),
                charge: charge.as_str(),
                paid_at: instant(paid_at),
            },
        ))
    }

    /// "Not paid", from the provider's refusal.
    pub(crate) fn of_decline(intent: IntentId, money: Money, decline: &Decline, failed_at: OffsetDateTime) -> Self {
        Self::of_failure(intent, money, decline.reason, failed_at)
    }

    /// "Not paid", from the proof that nothing was charged.
    pub(crate) fn of_proof(intent: IntentId, money: Money, proof: ProvenNotCharged, failed_at: OffsetDateTime) -> Self {
        Self::of_failure(intent, money, proof.reason(), failed_at)
    }

    fn of_failure(intent: IntentId, money: Money, reason: DeclineReason, failed_at: OffsetDateTime) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            intent: String,
            state: &'a str,
            amount: i64,
            currency: &'a str,
            decline: &'a str,
            failed_at: String,
        }
        Self(answer(
            402,
            &Body {
                intent: intent.to_string(),
                state: "FAILED",
                amount: money.minor,
                currency: money.currency.code(),
                decline: reason.as_str(),
                failed_at: instant(failed_at),
            },
        ))
    }

    /// "Given back", from the provider's refund.
    pub(crate) fn of_refund(
        intent: IntentId,
        money: Money,
        charge: &ProviderChargeId,
        refund: &str,
        refunded_at: OffsetDateTime,
    ) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            intent: String,
            state: &'a str,
            amount: i64,
            currency: &'a str,
            charge: &'a str,
            refund: &'a str,
            refunded_at: String,
        }
        Self(answer(
            200,
            &Body {
                intent: intent.to_string(),
                state: "SUCCEEDED",
                amount: money.minor,
                currency: money.currency.code(),
                charge: charge.as_str(),
                refund,
                refunded_at: instant(refunded_at),
            },
        ))
    }

    /// "Not given back", from the provider's refusal, its failure, or the proof that it was not made.
    pub(crate) fn of_refund_failure(intent: IntentId, money: Money, failure: &str, failed_at: OffsetDateTime) -> Self {
        #[derive(Serialize)]
        struct Body<'a> {
            intent: String,
            state: &'a str,
            amount: i64,
            currency: &'a str,
            failure: &'a str,
            failed_at: String,
        }
        Self(answer(
            402,
            &Body {
                intent: intent.to_string(),
                state: "FAILED",
                amount: money.minor,
                currency: money.currency.code(),
                failure,
                failed_at: instant(failed_at),
            },
        ))
    }

    /// What the database holds, as it is.
    pub(crate) fn stored(status: u16, content_type: String, body: Vec<u8>) -> Self {
        Self(Answer { status, content_type: Cow::Owned(content_type), body: body.into() })
    }

    /// The answer.
    pub fn answer(&self) -> &Answer {
        &self.0
    }
}

/// What is left of a final answer. Only a kept one can be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archived {
    /// Its bytes.
    Kept(Archive),
    /// Nothing: its retention is over. How the intent ended is known for ever.
    Purged,
}

impl Archived {
    /// The archive, if it is kept.
    pub fn kept(&self) -> Option<&Archive> {
        match self {
            Self::Kept(archive) => Some(archive),
            Self::Purged => None,
        }
    }
}

/// The present answer of an intent: its archive, or "pending" with what is known beside it. The latter is never stored.
/// `None`: it was purged.
pub fn present_answer(intent: IntentId, money: Money, standing: &Standing) -> Option<Answer> {
    match standing {
        Standing::Pending => Some(pending_answer(intent, money)),
        Standing::Unknown => Some(pending(intent, money, "unknown", None)),
        Standing::ActionRequired { continue_url } => {
            Some(pending(intent, money, "action_required", Some(continue_url)))
        }
        Standing::Succeeded { archive, .. } | Standing::Failed { archive, .. } => {
            archive.kept().map(|archive| archive.answer().clone())
        }
    }
}

/// The present answer of an intent that is being confirmed.
pub fn pending_answer(intent: IntentId, money: Money) -> Answer {
    pending(intent, money, "pending", None)
}

/// The present answer of a refund without an end; never stored.
pub(crate) fn pending_refund(intent: IntentId, money: Money, detail: &str) -> Answer {
    pending(intent, money, detail, None)
}

fn pending(intent: IntentId, money: Money, detail: &str, continue_url: Option<&ContinueUrl>) -> Answer {
    #[derive(Serialize)]
    struct Body<'a> {
        intent: String,
        state: &'a str,
        amount: i64,
        currency: &'a str,
        detail: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        continue_url: Option<&'a str>,
    }
    answer(
        202,
        &Body {
            intent: intent.to_string(),
            state: "PENDING",
            amount: money.minor,
            currency: money.currency.code(),
            detail,
            continue_url: continue_url.map(ContinueUrl::as_str),
        },
    )
}

fn answer(status: u16, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).expect("structs of strings and integers always serialise");
    Answer { status, content_type: Cow::Borrowed(JSON), body: body.into() }
}

/// RFC 3339 in UTC, in whole seconds.
fn instant(at: OffsetDateTime) -> String {
    whole_seconds(at).format(&Rfc3339).expect("a date of this era, in UTC, always formats")
}

/// The instant without its fraction, so that database and answer hold the same.
pub(crate) fn whole_seconds(at: OffsetDateTime) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at.unix_timestamp()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::{Archive, present_answer};
    use crate::{
        ids::IntentId,
        intent::{ProvenNotCharged, Standing},
        money::{Currency, Money},
        provider::{ContinueUrl, Decline, DeclineReason, ProviderChargeId},
    };

    const ID: &str = "3b241101-e2bb-4255-8caf-4136c566a962";

    fn intent() -> IntentId {
        IntentId::parse(ID).expect("an intent")
    }

    fn money() -> Money {
        Money::new(4990, Currency::parse("EUR").expect("a currency"))
    }

    #[test]
    fn answers_have_their_keys_in_one_order_for_ever() {
        let at = datetime!(2026-01-02 03:04:05.678 UTC);
        let charge = ProviderChargeId::parse("ch_1").expect("a charge");
        let decline = Decline { code: "insufficient_funds".to_owned(), reason: DeclineReason::InsufficientFunds };
        let url = ContinueUrl::parse("https://bank.example/step").expect("an address");
        let paid = Archive::of_charge(intent(), money(), &charge, at);
        let declined = Archive::of_decline(intent(), money(), &decline, at);
        let proven = Archive::of_proof(intent(), money(), ProvenNotCharged::payment_intent_cancelled(), at);
        let bank =
            present_answer(intent(), money(), &Standing::ActionRequired { continue_url: url }).expect("an answer");
        let unknown = present_answer(intent(), money(), &Standing::Unknown).expect("an answer");

        let head = format!(r#"{{"intent":"{ID}","state":"#);
        for (answer, status, rest) in [
            (
                paid.answer(),
                200,
                r#""SUCCEEDED","amount":4990,"currency":"EUR","charge":"ch_1","paid_at":"2026-01-02T03:04:05Z"}"#,
            ),
            (
                declined.answer(),
                402,
                r#""FAILED","amount":4990,"currency":"EUR","decline":"insufficient_funds","failed_at":"2026-01-02T03:04:05Z"}"#,
            ),
            (
                proven.answer(),
                402,
                r#""FAILED","amount":4990,"currency":"EUR","decline":"not_charged","failed_at":"2026-01-02T03:04:05Z"}"#,
            ),
            (
                &bank,
                202,
                r#""PENDING","amount":4990,"currency":"EUR","detail":"action_required","continue_url":"https://bank.example/step"}"#,
            ),
            (&unknown, 202, r#""PENDING","amount":4990,"currency":"EUR","detail":"unknown"}"#),
        ] {
            assert_eq!(answer.status, status);
            assert_eq!(answer.content_type, "application/json");
            assert_eq!(String::from_utf8_lossy(&answer.body), format!("{head}{rest}"));
        }
    }
}
