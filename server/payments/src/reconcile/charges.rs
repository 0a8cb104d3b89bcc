//! Charges: the provider's list and ours, side by side, both in the order of time and id.
//!
//! Promise: what is in both is compared, and what is in one only is looked into, whatever order the provider lists the charges of
//! one second in. Memory holds one chunk of theirs and one page of ours, however long the lists are.

use std::{cmp::Ordering, collections::VecDeque};

use futures::FutureExt as _;
use time::{Duration, OffsetDateTime};

use super::{Window, Work, finding::Kind, judge, side_by_side, store};
use crate::{
    limits::{LIST_PAGE, RECONCILE_CHUNK, RECONCILE_ROWS, SECOND_CHARGES_MAX},
    lists::{Reader, Stop, patiently},
    money::{Currency, Money},
    pool::StoreError,
    provider::{
        UnknownReason,
        lists::{Entry, ListPage, ListedCharge, ListedState, Place},
    },
};

/// A charge that an intent of ours succeeded by.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    pub(super) of: super::finding::OfIntent,
    pub(super) charge: String,
    pub(super) paid_at: OffsetDateTime,
    pub(super) money: Money,
}

/// Compares the charges of a window: read newest first, compared in chunks of whole seconds.
pub(super) async fn compare(work: &Work, window: Window) -> Result<(), Stop> {
    let mut page = ListPage { from: Some(window.from), until: window.until, place: Place::Newest, limit: LIST_PAGE };
    let (mut chunk, mut end) = (Vec::new(), window.end());
    loop {
        // A place that is gone in the middle of reading: the next run begins anew.
        let listed = Reader(&work.ctx).charges(&page).await?.ok_or(Stop::Provider(UnknownReason::NotFound))?;
        for entry in listed.entries {
            match entry {
                Entry::Read(charge) => chunk.push(charge),
                Entry::Unreadable { id, made: _ } => work.tell_unreadable(Kind::UnreadableCharge, &id).await?,
            }
        }
        let next = listed.oldest.filter(|_| listed.has_more);
        if next.is_some() && chunk.len() < RECONCILE_CHUNK {
            page.place = next.map_or(Place::Newest, Place::OlderThan);
            continue;
        }
        // The oldest second may go on behind the page; all that is newer is whole.
        let begin = match (&next, chunk.last()) {
            (Some(_), Some(oldest)) => oldest.created + Duration::SECOND,
            (Some(_) | None, _) => window.from,
        };
        let rest = chunk.split_off(chunk.partition_point(|charge| charge.created >= begin));
        if !chunk.is_empty() || next.is_none() {
            compare_chunk(work, chunk, begin, end).await?;
            end = begin;
        }
        chunk = rest;
        if chunk.len() > SECOND_CHARGES_MAX {
            return Err(Stop::TooMany);
        }
        let Some(next) = next else { return Ok(()) };
        page.place = Place::OlderThan(next);
    }
}

/// Compares what lies between two instants.
async fn compare_chunk(
    work: &Work,
    mut theirs: Vec<ListedCharge>,
    from: OffsetDateTime,
    until: OffsetDateTime,
) -> Result<(), Stop> {
    work.step().await?;
    theirs.retain(|charge| charge.state == ListedState::Succeeded);
    theirs.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
    let mut ours = Ours::between(from, until);
    let (mut only_theirs, mut only_ours) = (Vec::new(), Vec::new());
    let mut tally = super::report::Tally::default();
    for charge in theirs {
        tally.charges_theirs.add(charge.money);
        loop {
            let order =
                ours.peek(work).await?.map(|booked| (booked.paid_at, booked.charge.as_str()).cmp(&key(&charge)));
            match (order, ours.page.pop_front_if(|_| order.is_some_and(Ordering::is_le))) {
                (Some(Ordering::Equal), Some(booked)) => {
                    tally.charges_ours.add(booked.money);
                    judge::both(work, &booked, &charge).await?;
                    break;
                }
                (_, Some(booked)) => {
                    tally.charges_ours.add(booked.money);
                    only_ours.push(booked);
                }
                (_, None) => {
                    only_theirs.push(charge);
                    break;
                }
            }
        }
    }
    while ours.peek(work).await?.is_some() {
        let Some(booked) = ours.page.pop_front() else { break };
        tally.charges_ours.add(booked.money);
        only_ours.push(booked);
        // Ours alone may be many, as for a provider that has lost its memory.
        if only_ours.len() >= RECONCILE_CHUNK {
            look_into_ours(work, std::mem::take(&mut only_ours)).await?;
        }
    }
    work.count(|all| all.add(&tally));
    look_into_theirs(work, only_theirs).await?;
    look_into_ours(work, only_ours).await
}

fn key(charge: &ListedCharge) -> (OffsetDateTime, &str) {
    (charge.created, charge.id.as_str())
}

/// What only the provider lists at this time: it may be booked at another, or not at all.
async fn look_into_theirs(work: &Work, charges: Vec<ListedCharge>) -> Result<(), Stop> {
    side_by_side(charges.iter().map(|charge| judge::theirs(work, charge).boxed()).collect()).await
}

/// What only we list at this time.
async fn look_into_ours(work: &Work, booked: Vec<Booked>) -> Result<(), Stop> {
    side_by_side(booked.iter().map(|booked| judge::ours(work, booked).boxed()).collect()).await
}

/// Ours between two instants, read page by page.
struct Ours {
    from: OffsetDateTime,
    until: OffsetDateTime,
    behind: (OffsetDateTime, String),
    page: VecDeque<Booked>,
    is_last: bool,
}

impl Ours {
    fn between(from: OffsetDateTime, until: OffsetDateTime) -> Self {
        Self { from, until, behind: (from, String::new()), page: VecDeque::new(), is_last: false }
    }

    async fn peek(&mut self, work: &Work) -> Result<Option<&Booked>, Stop> {
        while self.page.is_empty() && !self.is_last {
            let (within, (paid_at, charge)) = ((self.from, self.until), &self.behind);
            let ctx = &work.ctx;
            let rows = patiently(ctx, || store::list_booked(&ctx.pool, within, (*paid_at, charge))).await?;
            self.is_last = i64::try_from(rows.len()).unwrap_or(i64::MAX) < RECONCILE_ROWS;
            if let Some(last) = rows.last() {
                self.behind = (last.paid_at, last.charge.clone());
            }
            self.page = rows.into_iter().map(Booked::try_from).collect::<Result<_, _>>()?;
        }
        Ok(self.page.front())
    }
}

impl TryFrom<store::BookedRow> for Booked {
    type Error = StoreError;

    fn try_from(row: store::BookedRow) -> Result<Self, StoreError> {
        let currency = Currency::parse(&row.currency).or(Err(StoreError::Impossible("currency of a booked charge")))?;
        Ok(Self {
            of: super::finding::OfIntent::pay(row.order_id, row.id),
            charge: row.charge,
            paid_at: row.paid_at,
            money: Money::new(row.amount_minor, currency),
        })
    }
}
