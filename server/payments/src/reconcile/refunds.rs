//! Refunds: the provider's list and ours.
//!
//! Promise: as for charges: nothing is concluded from its absence in a list. Ours and theirs have different times (ours is that of the
//! asking), so that theirs are looked up by their ids, and ours that were not seen on the way are asked for. Refunds of charges
//! that are not ours are not our business: the charge is told.

use std::collections::HashSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Window, Work,
    finding::{Finding, Kind, OfIntent},
    report::Tally,
    store::{self, RefundRow},
};
use crate::{
    intent::State,
    limits::{LIST_PAGE, RECONCILE_ROWS},
    lists::{Reader, Stop, patiently},
    money::{Currency, Money},
    pool::StoreError,
    provider::{
        UnknownReason,
        lists::{Entry, ListPage, ListedRefund, ListedState, Place},
    },
    refund::at_provider,
};

/// Most refunds of a window that are remembered as seen, some MiB; what is beyond is asked for one by one.
const SEEN_MAX: usize = 50_000;

/// Compares the refunds of a window.
pub(super) async fn compare(work: &Work, window: Window) -> Result<(), Stop> {
    let mut seen = HashSet::new();
    let mut page = ListPage { from: Some(window.from), until: window.until, place: Place::Newest, limit: LIST_PAGE };
    loop {
        work.step().await?;
        let listed = Reader(&work.ctx).refunds(&page).await?.ok_or(Stop::Provider(UnknownReason::NotFound))?;
        let mut refunds = Vec::new();
        for entry in listed.entries {
            match entry {
                Entry::Read(refund) => refunds.push(refund),
                Entry::Unreadable { id, made: _ } => work.tell_unreadable(Kind::UnreadableRefund, &id).await?,
            }
        }
        theirs(work, &refunds).await?;
        seen.extend(refunds.into_iter().map(|refund| refund.id).take(SEEN_MAX.saturating_sub(seen.len())));
        match listed.oldest {
            Some(oldest) if listed.has_more => page.place = Place::OlderThan(oldest),
            Some(_) | None => break,
        }
    }
    ours(work, window, &seen).await
}

/// Compares refunds of the provider's with ours.
pub(super) async fn theirs(work: &Work, refunds: &[ListedRefund]) -> Result<(), Stop> {
    let ctx = &work.ctx;
    let ids: Vec<String> = refunds.iter().map(|refund| refund.id.clone()).collect();
    let rows = patiently(ctx, || store::list_refunds_by_provider(&ctx.pool, &ids)).await?;
    let mut tally = Tally::default();
    for refund in refunds {
        if refund.state != ListedState::Failed {
            tally.refunds_theirs.add(refund.money);
        }
        let known = rows.iter().find(|row| row.provider_refund.as_deref() == Some(&refund.id));
        if known.map(|row| agree(row, refund)).transpose()? == Some(true) {
            continue;
        }
        repair(work, refund).await?;
        let ids = [refund.id.clone()];
        let rows = patiently(ctx, || store::list_refunds_by_provider(&ctx.pool, &ids)).await?;
        match rows.first() {
            Some(row) => both(work, row, refund).await?,
            None => only_theirs(work, refund).await?,
        }
    }
    work.count(|all| all.add(&tally));
    Ok(())
}

/// What an event would have done: the refund becomes known, or gets its end. What it cannot mend is told after it.
async fn repair(work: &Work, refund: &ListedRefund) -> Result<(), Stop> {
    if let (false, Some(charge)) = (work.dry_run, &refund.charge) {
        let looked = at_provider::look_at_charge(&work.ctx, charge).await?;
        tracing::info!(refund = refund.id, ?looked, "the reconciliation looked at the refunds of a charge");
    }
    Ok(())
}

async fn both(work: &Work, row: &RefundRow, refund: &ListedRefund) -> Result<(), Stop> {
    let Some(kind) = difference(row, refund)? else { return Ok(()) };
    work.tell(Finding {
        intent: Some(OfIntent::refund(row.order_id, row.id)),
        refund: Some(refund.id.clone()),
        expected: Some(money(row)?),
        reported: Some(refund.money),
        ..Finding::of(kind)
    })
    .await
}

/// Whether both say the same of a refund.
pub(super) fn agree(row: &RefundRow, refund: &ListedRefund) -> Result<bool, StoreError> {
    Ok(difference(row, refund)?.is_none())
}

fn difference(row: &RefundRow, refund: &ListedRefund) -> Result<Option<Kind>, StoreError> {
    if money(row)? != refund.money {
        return Ok(Some(Kind::RefundAmountMismatch));
    }
    // What has no end yet gets it from whoever looks after it.
    Ok(match (State::parse(&row.state), refund.state) {
        (Some(State::Succeeded), ListedState::Failed) if !row.is_reversed => Some(Kind::RefundStateMismatch),
        (Some(State::Failed), ListedState::Succeeded) => Some(Kind::RefundStateMismatch),
        (_, ListedState::Succeeded | ListedState::Pending | ListedState::Failed) => None,
    })
}

async fn only_theirs(work: &Work, refund: &ListedRefund) -> Result<(), Stop> {
    let (ctx, Some(charge)) = (&work.ctx, &refund.charge) else { return Ok(()) };
    if refund.state == ListedState::Failed {
        return Ok(());
    }
    let known = patiently(ctx, || store::find_refunded(&ctx.pool, charge)).await?;
    match known {
        Some(known) if !known.is_under_way => {
            work.tell(Finding {
                refund: Some(refund.id.clone()),
                named_order: Some(known.order_id),
                reported: Some(refund.money),
                ..Finding::of(Kind::RefundOnlyTheirs)
            })
            .await
        }
        Some(_) | None => Ok(()),
    }
}

/// Our refunds of a window: those that were not seen are asked for.
async fn ours(work: &Work, window: Window, seen: &HashSet<String>) -> Result<(), Stop> {
    let (ctx, within) = (&work.ctx, (window.from, window.end()));
    let mut behind = (window.from - time::Duration::SECOND, Uuid::nil());
    loop {
        let rows = patiently(ctx, || store::list_refunds(&ctx.pool, within, behind)).await?;
        for row in &rows {
            let (Some(State::Succeeded), Some(refund), false) =
                (State::parse(&row.state), row.provider_refund.as_deref(), row.is_reversed)
            else {
                continue;
            };
            let ours = money(row)?;
            work.count(|tally| tally.refunds_ours.add(ours));
            if !seen.contains(refund) {
                only_ours(work, row, refund).await?;
            }
        }
        behind = rows.last().map_or(behind, place);
        if i64::try_from(rows.len()).unwrap_or(i64::MAX) < RECONCILE_ROWS {
            return Ok(());
        }
    }
}

fn place(row: &RefundRow) -> (OffsetDateTime, Uuid) {
    (row.created_at, row.id)
}

async fn only_ours(work: &Work, row: &RefundRow, refund: &str) -> Result<(), Stop> {
    work.step().await?;
    if let Some(listed) = Reader(&work.ctx).refund(refund).await? {
        return both(work, row, &listed).await;
    }
    work.tell(Finding {
        intent: Some(OfIntent::refund(row.order_id, row.id)),
        refund: Some(refund.to_owned()),
        expected: Some(money(row)?),
        ..Finding::of(Kind::RefundOnlyOurs)
    })
    .await
}

fn money(row: &RefundRow) -> Result<Money, StoreError> {
    let currency = Currency::parse(&row.currency).or(Err(StoreError::Impossible("currency of a refund")))?;
    Ok(Money::new(row.amount_minor, currency))
}
