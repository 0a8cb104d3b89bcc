//! What programs are told of refunds.

use payments::{
    intent::State,
    refund::{Refund, Remaining},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::told::{IntentStateWord, instant};

/// The archived answer to a refund that was given back; the same bytes for every repeat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundSucceeded {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^SUCCEEDED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    /// The provider's charge that it gives back.
    #[schema(example = "ch_3PmxyzAbCdEf")]
    pub charge: String,
    /// The provider's refund.
    #[schema(example = "re_3PmxyzAbCdEf")]
    pub refund: String,
    #[schema(format = DateTime)]
    pub refunded_at: String,
}

/// The archived answer to a refund that was not given back; the same bytes for every repeat. Another try is another refund, under
/// a new key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundFailed {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^FAILED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    /// The provider's word for why, or `not_refunded`: it is proven that none was made.
    #[schema(example = "charge_already_refunded")]
    pub failure: String,
    #[schema(format = DateTime)]
    pub failed_at: String,
}

/// A refund without an end. Send the same request again, or ask for the order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundPending {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^PENDING$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    /// `pending`: it is being sent. `unknown`: its answer was lost, and is being looked for. `at_provider`: the provider has it,
    /// and the bank takes its time.
    #[schema(pattern = "^(pending|unknown|at_provider)$")]
    pub detail: String,
}

/// A refund of an order.
#[derive(Serialize, ToSchema)]
pub struct OrderRefundBody {
    /// The idempotency key; of a refund that somebody else made at the provider, a UUID that stands for it.
    #[schema(format = Uuid)]
    intent: String,
    state: IntentStateWord,
    /// With `PENDING`.
    #[schema(value_type = Option<String>)]
    detail: Option<&'static str>,
    amount: i64,
    currency: String,
    #[schema(value_type = Option<String>)]
    reason: Option<&'static str>,
    /// The provider's charge that it gives back.
    charge: String,
    /// The provider's refund, once it is known.
    refund: Option<String>,
    /// Whether somebody else made it, at the provider.
    elsewhere: bool,
    #[schema(format = DateTime)]
    refunded_at: Option<String>,
    /// With `FAILED`, or with `reversed_at`.
    failure: Option<String>,
    /// When it was learned that it failed after it had succeeded: the money is not with the customer.
    #[schema(format = DateTime)]
    reversed_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

impl OrderRefundBody {
    /// A refund, as a program is shown it.
    pub fn of(refund: &Refund) -> Self {
        let (state, detail) = match refund.state {
            State::Succeeded => (IntentStateWord::Succeeded, None),
            State::Failed => (IntentStateWord::Failed, None),
            State::Pending | State::Unknown | State::ActionRequired => {
                (IntentStateWord::Pending, Some(refund.detail()))
            }
        };
        Self {
            intent: refund.key.intent.to_string(),
            state,
            detail,
            amount: refund.money.minor,
            currency: refund.money.currency.to_string(),
            reason: refund.reason.map(payments::provider::RefundReason::as_str),
            charge: refund.charge.to_string(),
            refund: refund.provider_refund.clone(),
            elsewhere: refund.elsewhere,
            refunded_at: refund.refunded_at.map(instant),
            failure: refund.failure.clone(),
            reversed_at: refund.reversed_at.map(instant),
            created_at: instant(refund.created_at),
            finished_at: refund.finished_at.map(instant),
        }
    }
}

/// What of an order was given back, and can still be.
#[derive(Serialize, ToSchema)]
pub struct RefundedBody {
    /// By refunds that are under way or were given back, in minor units.
    refunded: i64,
    /// What disputes hold back, or have taken.
    disputed: i64,
    /// What can still be given back.
    remaining: i64,
}

impl From<Remaining> for RefundedBody {
    fn from(left: Remaining) -> Self {
        Self { refunded: left.refunded.minor, disputed: left.disputed.minor, remaining: left.remaining.minor }
    }
}
