//! Every bound of the domain, with its unit in its name and its reason beside it.

use std::time::Duration;

/// Largest amount in minor units. Stripe takes eight digits for most currencies and up to twelve for some; eleven nines keep
/// every sum of an order far inside 64 bits.
pub const MAX_AMOUNT_MINOR: i64 = 99_999_999_999;

/// Most different products in one order; more than a shop of this size has, and small enough for one page and one statement.
pub const MAX_ORDER_LINES: usize = 50;

/// Most pieces of one product in one order, so that one customer cannot empty the shop by a slip.
pub const MAX_LINE_QUANTITY: i32 = 99;

/// How often an order is given new names when its reference is taken: one in 10¹¹ is, so that three in a row are a fault.
pub const PLACE_TRIES: usize = 3;

/// How often a reserve that lost a race is run again: the second run sees the winner, unless that one was released meanwhile.
pub const RESERVE_TRIES: usize = 4;

/// Most keys that one query asks for on behalf of those who wait.
pub const WAITERS_BATCH: usize = 10_000;

/// Every how many ticks (of 75 ms by default) the query also asks for intents that this replica runs itself. Once a second is
/// soon enough for news that overtook the provider's answer, and costs little with ten thousand payments in flight.
pub const OWN_INTENTS_TICKS: u32 = 13;

/// Most products that the catalogue page shows; the page is not paged.
pub const MAX_PRODUCTS: i64 = 200;

/// Longest e-mail address that can be delivered to (RFC 5321: 256 with the brackets).
pub const MAX_EMAIL_BYTES: usize = 254;

/// Longest answer that is archived; ours are under 300 bytes. The database checks the same number.
pub const MAX_ARCHIVE_BYTES: usize = 4_096;

/// How long a starting replica waits for another one that migrates; above what an index on ten million intents takes.
pub const MIGRATION_PATIENCE: Duration = Duration::from_mins(10);

/// Pause between two looks of a replica that waits for another's migration.
pub const MIGRATION_LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Most batches of one run of the purge: a backlog of a million is gone within a few runs, and no run lasts for ever.
pub const PURGE_BATCHES: usize = 200;

/// Most batches of one run of the timer for unpaid orders: a rush of a thousand is over within some runs.
pub const EXPIRE_BATCHES: usize = 10;

/// Longest frozen request; a confirm is a payment method and an address. The database checks the same number.
pub const MAX_REQUEST_BYTES: usize = 8_192;

/// Longest name of a line that a program sends; one line of a receipt.
pub const MAX_LINE_NAME_BYTES: usize = 200;

/// Longest idempotency key of a program, as the draft of the IETF suggests. The database checks the same number.
pub const MAX_ORDER_KEY_BYTES: usize = 255;

/// Longest name of an API key. The database checks the same number of characters.
pub const MAX_API_KEY_NAME_BYTES: usize = 100;

/// Most API keys that are listed, newest first.
pub const MAX_API_KEYS: i64 = 1_000;

/// Most intents of one order that a program is shown, newest first: as many as anybody tries.
pub const MAX_ORDER_INTENTS: i64 = 100;

/// Entries of one page of a provider's list; as many as it gives.
pub const LIST_PAGE: u8 = 100;

/// How often a page is asked for before its reader gives up, and the first pause between two tries, doubled each time: four
/// seconds in all, longer than a rate limit lasts.
pub const LIST_TRIES: u32 = 5;
/// See [`LIST_TRIES`].
pub const LIST_FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Pages of events that one run reads: five thousand events, so that days are made up for within minutes and no run lasts for ever.
pub const MISSED_PAGES: usize = 50;

/// Events of one page that are handled side by side; few beside the connections of a replica.
pub const MISSED_AT_ONCE: usize = 4;

/// Steps of the search for the oldest event that the provider still has: halving thirty days of seconds takes 22.
pub const OLDEST_EVENT_STEPS: usize = 32;

/// Windows into which the time to compare is cut, and how long one is at least. Many, so that busy hours are spread over the
/// readers; each costs a call, so that an hour has few.
pub const RECONCILE_WINDOWS: i64 = 96;
/// See [`RECONCILE_WINDOWS`].
pub const RECONCILE_WINDOW_MIN: Duration = Duration::from_mins(10);

/// Windows that are read side by side. Six lists of a hundred entries each stay below a third of the provider's rate limit.
pub const RECONCILE_READERS: usize = 6;

/// Charges that a reader gathers before it compares them: some hundred KiB, and one statement for ours beside them.
pub const RECONCILE_CHUNK: usize = 2_000;

/// Most charges of one second that are compared; they are sorted in memory. Ten times what the largest sales have seen.
pub const SECOND_CHARGES_MAX: usize = 200_000;

/// Rows of ours that one statement of the reconciliation reads.
pub const RECONCILE_ROWS: i64 = 2_500;

/// Entries without a counterpart that are looked into side by side.
pub const JUDGED_AT_ONCE: usize = 4;

/// Open discrepancies that one run looks into again, the longest unchecked first: each may be a call to the provider.
pub const RECHECKS: i64 = 500;

/// Open discrepancies that a report lists; all are counted.
pub const REPORT_ROWS: i64 = 10_000;

/// How long the first reconciliation of a shop without orders looks back: as long as the provider lists events.
pub const RECONCILE_FIRST_LOOK_BACK: Duration = Duration::from_hours(30 * 24);

/// Bounds that a deployment may choose, or a test.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long Pay waits for an outcome before it says that the payment is under way. Below the 30 s after which proxies and
    /// browsers commonly give up.
    pub pay_wait: Duration,
    /// How long a question for the outcome waits for the provider before it tells what was known before.
    pub ask_wait: Duration,
    /// How long an executor owns an intent. Longer than one call to the provider (10 s by default) and the settle after it, so
    /// that nobody takes over a healthy executor; short, since a crashed one leaves its customer waiting this long.
    pub lease: Duration,
    /// How long a 409 lock of the provider's is waited for before the outcome counts as unknown; within the lease.
    pub busy_patience: Duration,
    /// First pause after a 409 lock, or after a look that told nothing; doubled each time.
    pub first_pause: Duration,
    /// Longest pause between two looks of the executor that lost an answer.
    pub longest_pause: Duration,
    /// How many looks the executor that lost an answer makes before it leaves the intent to recovery.
    pub chase_looks: u32,
    /// Longest pause between two looks of recovery at one intent. Together with a look whose call hangs to its end (10 s by
    /// default) within the lease, so that an intent is final within the lease once the faults stop.
    pub longest_look_pause: Duration,
    /// Longest pause between two looks at a refund that the provider is at work on, which takes days at some banks. An event
    /// tells sooner.
    pub longest_refund_pause: Duration,
    /// For how long after the reservation a confirm may be re-sent. Stripe remembers keys for at least 24 h; one hour less,
    /// since clocks differ and requests are under way.
    pub provider_key_memory: Duration,
    /// How long after the reservation an intent may stay unknown. Then its payment intent is cancelled at the provider, which
    /// proves that it can no longer charge. Long enough for a provider's bad minute; short, since the customer waits.
    pub unknown_deadline: Duration,
    /// How long after the reservation an intent may wait for the customer at the bank. Then its payment intent is cancelled. Longer
    /// than banks give their customers, and than anybody looks for a telephone.
    pub bank_deadline: Duration,
    /// How long an order that nobody pays keeps its stock. Long enough for a customer who looks for a card.
    pub order_hold: Duration,
    /// How many orders whose hold time is over one batch takes: each is a call or two to the provider, and they run side by side.
    pub expire_batch: i64,
    /// After what time an order is taken up again that could not be decided. Above the time that the calls for a batch take, so
    /// that replicas share the work.
    pub expire_pause: Duration,
    /// How many due intents one run of recovery claims: each is one call to the provider, and they run side by side.
    pub recovery_batch: i64,
    /// How long a final answer is repeated; then it is purged, and a late repeat gets 410. A day, as at the provider: no honest
    /// client retries for longer.
    pub retention: Duration,
    /// How many intents one statement of the purge turns into tombstones: some tens of milliseconds of work.
    pub purge_batch: i64,
    /// For how long the answer to the making of an order by a program is archived; after that, a repeat is told where the order
    /// is. As long as the provider remembers keys, since programs know that number.
    pub order_key_memory: Duration,
    /// How many archived answers of that kind one run of the purge drops: a statement of some milliseconds.
    pub order_key_purge_batch: i64,
    /// How many kept events one run takes up: each may be a call to the provider, and they run side by side.
    pub inbox_batch: i64,
    /// Longest pause before an event is taken up again that could not be handled.
    pub inbox_longest_pause: Duration,
    /// For how long a handled event is remembered. Stripe delivers for three days, and lists events for thirty; what comes again
    /// after that still finds the intent as it left it.
    pub inbox_memory: Duration,
    /// How often somebody who waits for news of an order looks, of which nothing is under way.
    pub watch_pause: Duration,
    /// Pause between two readings of the provider's list of events. An endpoint that is down costs customers nothing meanwhile,
    /// since whoever waits asks.
    pub missed_pause: Duration,
    /// How much of the list of events is read again each time, since events may appear in it late.
    pub missed_overlap: Duration,
    /// How far back the first reading of events begins: for as long as the provider delivers, nothing is missed yet.
    pub missed_first_look_back: Duration,
    /// How long the reader of a list may be silent before another one begins; above the slowest page with all its repeats.
    pub reading_lease: Duration,
    /// How much of what was compared is compared again each time: charges that were made just before the last run's end.
    pub reconcile_overlap: Duration,
    /// Pause between two batched queries for intents that another replica runs.
    pub waiters_tick: Duration,
    /// How long a keyed statement is repeated after a fault of connection or concurrency, before the charge. Below what a
    /// customer takes for a hang; long enough for a pool whose idle connections all died with the old primary.
    pub statement_patience: Duration,
    /// Most repeats of one keyed statement within its patience; above the pool's size, since each may meet a dead connection.
    pub statement_tries: u32,
    /// How long the outcome of a charge is tried to be written before recovery has to find it. The customer is long gone to
    /// the outcome page by then.
    pub settle_patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pay_wait: Duration::from_secs(10),
            ask_wait: Duration::from_secs(3),
            lease: Duration::from_secs(20),
            busy_patience: Duration::from_secs(8),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            chase_looks: 8,
            longest_look_pause: Duration::from_secs(10),
            longest_refund_pause: Duration::from_hours(1),
            provider_key_memory: Duration::from_hours(23),
            unknown_deadline: Duration::from_mins(1),
            bank_deadline: Duration::from_mins(30),
            order_hold: Duration::from_hours(1),
            expire_batch: 20,
            expire_pause: Duration::from_mins(1),
            recovery_batch: 20,
            retention: Duration::from_hours(24),
            purge_batch: 1_000,
            order_key_memory: Duration::from_hours(24),
            order_key_purge_batch: 1_000,
            inbox_batch: 20,
            inbox_longest_pause: Duration::from_mins(10),
            inbox_memory: Duration::from_hours(30 * 24),
            watch_pause: Duration::from_secs(1),
            missed_pause: Duration::from_mins(1),
            missed_overlap: Duration::from_mins(5),
            missed_first_look_back: Duration::from_hours(3 * 24),
            reading_lease: Duration::from_mins(2),
            reconcile_overlap: Duration::from_hours(1),
            waiters_tick: Duration::from_millis(75),
            statement_patience: Duration::from_secs(3),
            statement_tries: 40,
            settle_patience: Duration::from_mins(10),
        }
    }
}

impl Limits {
    /// The longest pause between two looks with which an intent is final within its lease once the faults stop: a look that
    /// hangs for the whole of a call to the provider, and the pause after it, take no longer than the lease.
    pub fn look_pause_within(lease: Duration, call: Duration) -> Duration {
        lease.saturating_sub(call).max(Self::default().first_pause)
    }
}

#[cfg(test)]
mod tests {
    //! What hangs together among the numbers.

    use std::time::Duration;

    use super::Limits;

    /// A look began just before the faults stopped, and hangs to the end of its call. Recovery runs once in a second.
    #[test]
    fn l1_a_look_that_hangs_and_the_pause_after_it_end_within_the_lease_and_two_seconds() {
        let recovery = Duration::from_secs(1);
        for (lease_ms, call_ms) in [(20_000, 10_000), (2_000, 1_000), (600_000, 120_000), (500, 499), (20_000, 100)] {
            let (lease, call) = (Duration::from_millis(lease_ms), Duration::from_millis(call_ms));
            let known = call + Limits::look_pause_within(lease, call) + recovery;
            assert!(known <= lease + Duration::from_secs(2), "lease {lease:?}, call {call:?}: {known:?}");
        }
    }

    #[test]
    fn the_default_pause_is_that_of_the_default_lease_and_a_call_of_ten_seconds() {
        let limits = Limits::default();
        assert_eq!(limits.longest_look_pause, Limits::look_pause_within(limits.lease, Duration::from_secs(10)));
    }
}
