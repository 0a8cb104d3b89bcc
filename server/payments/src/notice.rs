//! Notices: what the provider says of its own accord. They speak of a payment intent, not of an intent of ours.
//!
//! Promise: a notice settles as an answer does, through the one function that settles, so it may come before the confirm's
//! answer, after it, many times, or never; who waits for the intent gets the same bytes. Never: the news that one try was
//! declined fails an intent, since they do not tell which try of the payment intent they mean; they only make us look.

use crate::{
    Ctx,
    inbox::InboxNumber,
    intent::{self, Fact, ProvenNotCharged, Standing},
    pool::StoreError,
    provider::{ProviderCharge, ProviderPaymentIntentId},
    recover,
    settle::{self, Target},
};

/// What the provider says of a payment intent. Its origin is proven by whoever brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was charged. A payment intent succeeds only once.
    Charged(ProviderCharge),
    /// It is cancelled, and never will be charged.
    Cancelled,
    /// Something else happened to it.
    Changed,
    /// Something happened to its charge since: a refund, or a dispute.
    Refunds,
}

/// Takes in a notice; `event` is what brought it, which is marked in the commit of whatever it moves. Returns where the intent stands that it concerns; `None`: no intent of ours confirms this payment intent.
///
/// # Errors
/// When the database cannot answer. Taking in the same notice again is safe.
pub async fn take(
    ctx: &Ctx,
    payment_intent: &ProviderPaymentIntentId,
    notice: Notice,
    event: Option<InboxNumber>,
) -> Result<Option<Standing>, StoreError> {
    let Some(intent) = intent::find_by_payment_intent(ctx, payment_intent).await? else { return Ok(None) };
    let fact = match notice {
        Notice::Charged(charge) => Fact::Charged(charge),
        Notice::Cancelled => Fact::NotCharged(ProvenNotCharged::payment_intent_cancelled()),
        // What became of money that was taken, only a look at the provider's lists tells; here it makes us look as well.
        Notice::Changed | Notice::Refunds => {
            let seen = recover::look_if_idle(ctx, &intent.key).await?;
            return Ok(Some(seen.unwrap_or(intent.standing)));
        }
    };
    settle::apply(ctx, &Target { event, ..Target::from(&intent) }, &fact).await.map(Some)
}
