//! Missed events: reads the provider's list of events, for those that no delivery brought, as when our endpoint was down.
//!
//! Promise: every event that the provider still lists is taken in sooner or later, as a delivery would be; one that was delivered
//! costs a look. The list is read from where it was read last, less an overlap, since events may appear in it late; where the
//! provider has forgotten that place, from a time. Never: what was read counts as read before it is kept.

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use time::OffsetDateTime;

use super::{receive, store};
use crate::{
    Ctx,
    limits::{LIST_PAGE, MISSED_AT_ONCE, MISSED_PAGES, OLDEST_EVENT_STEPS},
    lists::{Pauses, Reader, Stop, patiently},
    provider::{
        ProviderEvent,
        lists::{Entry, ListPage, Listed, Place},
    },
    reading::{self, List, Reading},
};

/// Reads on, if it is time and nobody else does. Returns how many events were new to us. Replicas may run it side by side.
///
/// # Errors
/// When the provider or the database cannot answer. What was kept by then is kept; the next run goes on from there.
pub async fn run_once(ctx: &Ctx) -> Result<usize, Stop> {
    let task = ctx.clone();
    let work = ctx.detach(async move {
        let Some(reading) = reading::claim(&task, List::Events, true).await? else { return Ok(0) };
        let read = read_on(&task, &reading).await;
        reading::end(&task, &reading, Some(task.limits.missed_pause)).await;
        read
    });
    work.await.unwrap_or(Err(Stop::Ended))
}

/// How far the list is read: an event, and when it was made.
type Until = (String, OffsetDateTime);

async fn read_on(ctx: &Ctx, reading: &Reading) -> Result<usize, Stop> {
    let settled = reading.now - ctx.limits.missed_overlap;
    let first = reading.now - ctx.limits.missed_first_look_back;
    let (mut new, mut place) = (0, reading.place.clone());
    for _ in 0..MISSED_PAGES {
        let (page, from_the_oldest) = match next(ctx, place.as_deref()).await? {
            Some(page) => (page, false),
            // Forgotten, or the first time.
            None => match begin(ctx, reading.read_until.unwrap_or(first) - ctx.limits.missed_overlap).await? {
                Some(page) => (page, true),
                None => break,
            },
        };
        new += take_in(ctx, &page).await?;
        if ctx.tasks.is_closed() {
            return Ok(new);
        }
        // What may still appear beside these events is read again next time.
        if let Some((event, told_at)) = newest_settled(&page, settled)
            && !reading::keep(ctx, reading, Some(&event), told_at).await?
        {
            return Err(Stop::Overtaken);
        }
        place = page.newest.or(place);
        if !page.has_more && !from_the_oldest {
            break;
        }
    }
    Ok(new)
}

/// The page behind an event. `None`: there is no such event, or none was named.
async fn next(ctx: &Ctx, place: Option<&str>) -> Result<Option<Listed<ProviderEvent>>, Stop> {
    let Some(place) = place else { return Ok(None) };
    let page = ListPage { place: Place::NewerThan(place.to_owned()), limit: LIST_PAGE, ..ListPage::default() };
    Reader(ctx).events(&page).await
}

/// The page to begin with: one event, the newest that was made before this time, or else the oldest there is. `None`: there are
/// no events.
async fn begin(ctx: &Ctx, time: OffsetDateTime) -> Result<Option<Listed<ProviderEvent>>, Stop> {
    let before = async |until: OffsetDateTime| {
        let page = ListPage { until: Some(until), limit: 1, ..ListPage::default() };
        let page = Reader(ctx).events(&page).await?.unwrap_or(Listed::EMPTY);
        Ok::<_, Stop>(Some(page).filter(|page| page.newest.is_some()))
    };
    if let Some(page) = before(time).await? {
        return Ok(Some(page));
    }
    // The last second before which there is nothing, by halves; one event of the second after it is as old as any.
    let (mut without, mut with) = (time, ctx.clock.now() + time::Duration::minutes(5));
    let Some(mut oldest) = before(with).await? else { return Ok(None) };
    for _ in 0..OLDEST_EVENT_STEPS {
        if with - without <= time::Duration::SECOND {
            break;
        }
        let middle = without + (with - without) / 2;
        match before(middle).await? {
            Some(page) => (oldest, with) = (page, middle),
            None => without = middle,
        }
    }
    // Its neighbours of the same second, if there are any, stand behind it in the list.
    let Some(id) = oldest.newest.clone() else { return Ok(None) };
    let page = ListPage { place: Place::OlderThan(id), limit: LIST_PAGE, ..ListPage::default() };
    if let Some(older) = Reader(ctx).events(&page).await? {
        oldest.entries.extend(older.entries);
    }
    Ok(Some(oldest))
}

/// The newest event of a page beside which no other will appear any more.
fn newest_settled(page: &Listed<ProviderEvent>, settled: OffsetDateTime) -> Option<Until> {
    page.entries.iter().find_map(|entry| match entry {
        Entry::Read(event) if event.told_at <= settled => Some((event.id.clone(), event.told_at)),
        Entry::Read(_) | Entry::Unreadable { .. } => None,
    })
}

/// Takes in the events of a page that are new to us and that we act on. Returns how many.
async fn take_in(ctx: &Ctx, page: &Listed<ProviderEvent>) -> Result<usize, Stop> {
    let matters = |event: &&ProviderEvent| event.about.is_some() || event.wrong_mode;
    let listed: Vec<&ProviderEvent> = page.entries.iter().filter_map(read).filter(matters).collect();
    let ids: Vec<String> = listed.iter().map(|event| event.id.clone()).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let known = patiently(ctx, || store::list_known(&ctx.pool, &ids)).await?;
    let missed: Vec<ProviderEvent> = listed.into_iter().filter(|event| !known.contains(&event.id)).cloned().collect();
    let taken = missed.len();
    // Oldest first, as they happened, though any order ends in the same.
    let takings: Vec<BoxFuture<'_, _>> = missed.into_iter().rev().map(|event| take_one(ctx, event).boxed()).collect();
    let mut taking = stream::iter(takings).buffered(MISSED_AT_ONCE);
    while let Some(taken) = taking.next().await {
        taken?;
    }
    if taken > 0 {
        tracing::info!(events = taken, "took in events that no delivery had brought");
    }
    Ok(taken)
}

async fn take_one(ctx: &Ctx, event: ProviderEvent) -> Result<(), Stop> {
    let mut pauses = Pauses::default();
    while let Err(error) = receive(ctx, event.clone()).await {
        pauses.wait(ctx, error.into()).await?;
    }
    Ok(())
}

fn read(entry: &Entry<ProviderEvent>) -> Option<&ProviderEvent> {
    match entry {
        Entry::Read(event) => Some(event),
        Entry::Unreadable { id, .. } => {
            tracing::warn!(event = id, "an event of the provider's list cannot be read");
            None
        }
    }
}
