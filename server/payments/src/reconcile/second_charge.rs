//! A second charge of one order: money that was taken where another charge had paid already.

use super::{
    Work,
    finding::{Finding, Kind, OfIntent},
    judge::is_given_back,
};
use crate::{lists::Stop, money::Money, provider::lists::ListedCharge};

/// Told once. It is to be given back whole, under a key of its own; that begins here.
pub(super) async fn found(work: &Work, of: OfIntent, agreed: Money, charge: &ListedCharge) -> Result<(), Stop> {
    if is_given_back(charge) {
        return Ok(());
    }
    work.tell(Finding {
        intent: Some(of),
        charge: Some(charge.id.as_str().to_owned()),
        payment_intent: charge.payment_intent.as_ref().map(|id| id.as_str().to_owned()),
        expected: Some(agreed),
        reported: Some(charge.money),
        ..Finding::of(Kind::SecondCharge)
    })
    .await
}
