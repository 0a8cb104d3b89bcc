//! A second charge of one order: money that was taken where another charge had paid already.

use super::{
    Work,
    finding::{Finding, Kind, OfIntent},
    judge::is_given_back,
};
use crate::{ids::OrderId, lists::Stop, money::Money, provider::lists::ListedCharge, refund};

/// Told once, and given back whole, under a key of its own; the discrepancy is closed when the provider has given it back.
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
    .await?;
    if let (false, Some(payment_intent)) = (work.dry_run, &charge.payment_intent) {
        let order = OrderId(of.order);
        match refund::of_second_charge(&work.ctx, order, payment_intent, &charge.id, charge.money).await {
            Ok(said) => {
                tracing::warn!(%order, charge = %charge.id, status = said.answer.status, "a second charge is given back");
            }
            // It stays a discrepancy, and the next run tries again under the same key.
            Err(error) => tracing::error!(%order, charge = %charge.id, %error, "could not give back a second charge"),
        }
    }
    Ok(())
}
