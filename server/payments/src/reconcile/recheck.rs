//! Looks again into what is open: closes what has healed, and repairs what has become certain.
//!
//! Promise: each run looks into a bounded number, the longest unchecked first, so that all have their turn. What a person closed
//! is left alone.

use futures::FutureExt as _;

use super::{Work, judge, refunds, side_by_side, store};
use crate::{
    lists::{Reader, Stop, patiently},
    money::{Currency, Money},
    provider::{
        ProviderChargeId,
        lists::{ListedCharge, ListedState},
    },
};

/// Looks into the open ones.
pub(super) async fn run(work: &Work) -> Result<(), Stop> {
    if work.dry_run {
        return Ok(());
    }
    let ctx = &work.ctx;
    heal_booked(work).await?;
    let open = patiently(ctx, || store::list_unchecked(&ctx.pool, work.began)).await?;
    side_by_side(open.iter().map(|row| look(work, row).boxed()).collect()).await?;
    // What these looks have brought back.
    heal_booked(work).await
}

async fn heal_booked(work: &Work) -> Result<(), Stop> {
    let ctx = &work.ctx;
    let healed = patiently(ctx, || store::heal_booked(&ctx.pool)).await?;
    work.count(|tally| tally.healed += healed);
    Ok(())
}

async fn look(work: &Work, row: &store::OpenRow) -> Result<(), Stop> {
    work.step().await?;
    let healed = match (&row.charge, &row.refund) {
        (_, Some(refund)) => look_at_refund(work, row, refund).await?,
        (Some(charge), None) => look_at_charge(work, row, charge).await?,
        (None, None) => None,
    };
    let ctx = &work.ctx;
    let Some(how) = healed else {
        return patiently(ctx, || store::still_open(&ctx.pool, row.id)).await;
    };
    if patiently(ctx, || store::heal(&ctx.pool, row.id, how)).await? {
        tracing::info!(kind = row.kind, charge = row.charge, refund = row.refund, how, "a discrepancy has healed");
        work.count(|tally| tally.healed += 1);
    }
    Ok(())
}

/// How it has healed, if it has.
async fn look_at_charge(work: &Work, row: &store::OpenRow, charge: &str) -> Result<Option<&'static str>, Stop> {
    let Ok(id) = ProviderChargeId::parse(charge) else { return Ok(None) };
    let Some(charge) = Reader(&work.ctx).charge(&id).await? else { return Ok(None) };
    let has_succeeded = charge.state == ListedState::Succeeded;
    match row.kind.as_str() {
        "only_ours" if has_succeeded => Ok((expected(row) == Some(charge.money)).then_some("found")),
        "only_ours" => Ok(None),
        _ if judge::is_given_back(&charge) => Ok(Some("refunded")),
        "unreadable_charge" => {
            judge_again(work, &charge).await?;
            Ok(Some("agrees"))
        }
        "amount_mismatch" if expected(row) == Some(charge.money) => {
            judge_again(work, &charge).await?;
            Ok(Some("agrees"))
        }
        "unknown_payment_intent" | "state_mismatch" => {
            judge_again(work, &charge).await?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

async fn judge_again(work: &Work, charge: &ListedCharge) -> Result<(), Stop> {
    if charge.state == ListedState::Succeeded { judge::theirs(work, charge).await } else { Ok(()) }
}

async fn look_at_refund(work: &Work, row: &store::OpenRow, refund: &str) -> Result<Option<&'static str>, Stop> {
    let ctx = &work.ctx;
    let Some(listed) = Reader(ctx).refund(refund).await? else { return Ok(None) };
    let ids = [refund.to_owned()];
    let ours = patiently(ctx, || store::list_refunds_by_provider(&ctx.pool, &ids)).await?;
    let agrees = match (row.kind.as_str(), ours.first()) {
        ("refund_only_ours" | "unreadable_refund", _) | ("refund_only_theirs", Some(_)) => true,
        ("refund_only_theirs", None) => listed.state == ListedState::Failed,
        ("refund_amount_mismatch" | "refund_state_mismatch", Some(ours)) => refunds::agree(ours, &listed)?,
        _ => false,
    };
    if agrees {
        // What else there is to say of it, is told.
        refunds::theirs(work, &[listed]).await?;
    }
    Ok(agrees.then_some("agrees"))
}

fn expected(row: &store::OpenRow) -> Option<Money> {
    let currency = Currency::parse(row.expected_currency.as_deref()?).ok()?;
    Some(Money::new(row.expected_minor?, currency))
}
