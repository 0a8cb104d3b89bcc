//! The breaker, in time that the tests turn by hand.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::{Duration, Instant, advance, sleep};

use super::{Breaker, BreakerLimits, Gate, Health, State};
use crate::{
    money::Money,
    provider::{
        CardSessionOutcome, ConfirmOutcome, ConfirmRequest, CreateOutcome, Decline, DeclineReason, NewPaymentIntent,
        NotSentReason, ProbeOutcome, Provider, ProviderPaymentIntentId, UnknownReason,
    },
};

const LIMITS: BreakerLimits = BreakerLimits {
    faults: 10,
    window: Duration::from_secs(30),
    silences: 3,
    pause: Duration::from_secs(2),
    trials: 1,
};

const SLOWLY: Duration = Duration::from_secs(3);

/// How a call to the provider goes.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Answers,
    Refuses,
    /// Ten seconds of nothing.
    Hangs,
    ServerFault,
    KeyRefused,
    RateLimited,
    Busy,
    /// An answer that is none of the provider's.
    Garbage,
    /// Answers, but late: after the pause of a breaker that opened meanwhile.
    Slow,
}

/// Counts what reaches it.
struct Counting {
    mood: Mutex<Mood>,
    calls: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Counting {
    async fn confirmed(&self) -> ConfirmOutcome {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let mood = *self.mood.lock().expect("no test panics while it holds this");
        let outcome = match mood {
            Mood::Answers => declined(),
            Mood::Slow => {
                sleep(SLOWLY).await;
                declined()
            }
            Mood::Hangs => {
                sleep(Duration::from_secs(10)).await;
                ConfirmOutcome::Unknown(UnknownReason::TimedOut)
            }
            Mood::Refuses => ConfirmOutcome::NotSent(NotSentReason::NotConnected),
            Mood::ServerFault => ConfirmOutcome::Unknown(UnknownReason::ServerFault),
            Mood::KeyRefused => ConfirmOutcome::NotSent(NotSentReason::KeyRefused),
            Mood::RateLimited => ConfirmOutcome::NotSent(NotSentReason::RateLimited),
            Mood::Busy => ConfirmOutcome::Busy,
            Mood::Garbage => ConfirmOutcome::Unknown(UnknownReason::Unreadable),
        };
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

fn declined() -> ConfirmOutcome {
    ConfirmOutcome::Declined(Decline { code: "card_declined".to_owned(), reason: DeclineReason::Generic })
}

#[async_trait]
impl Provider for Counting {
    async fn create_payment_intent(&self, _: &NewPaymentIntent) -> CreateOutcome {
        match self.confirmed().await {
            ConfirmOutcome::NotSent(reason) => CreateOutcome::NotSent(reason),
            ConfirmOutcome::Unknown(reason) => CreateOutcome::Unknown(reason),
            ConfirmOutcome::Approved(_)
            | ConfirmOutcome::Declined(_)
            | ConfirmOutcome::ActionRequired { .. }
            | ConfirmOutcome::Busy => CreateOutcome::Created(payment_intent()),
        }
    }

    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8> {
        [payment_method, return_url].concat().into_bytes()
    }

    async fn confirm(&self, _: &ConfirmRequest) -> ConfirmOutcome {
        self.confirmed().await
    }

    async fn probe(&self, _: &ProviderPaymentIntentId) -> ProbeOutcome {
        match self.confirmed().await {
            ConfirmOutcome::NotSent(NotSentReason::NotConnected) => {
                ProbeOutcome::CannotTell(UnknownReason::NotConnected)
            }
            ConfirmOutcome::NotSent(_) => ProbeOutcome::CannotTell(UnknownReason::NotAsked),
            ConfirmOutcome::Unknown(reason) => ProbeOutcome::CannotTell(reason),
            ConfirmOutcome::Approved(_)
            | ConfirmOutcome::Declined(_)
            | ConfirmOutcome::ActionRequired { .. }
            | ConfirmOutcome::Busy => ProbeOutcome::NotCharged,
        }
    }

    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        self.probe(payment_intent).await
    }

    async fn card_session(&self, _: &str) -> CardSessionOutcome {
        match self.confirmed().await {
            ConfirmOutcome::Declined(_) => CardSessionOutcome::Missing,
            ConfirmOutcome::NotSent(_)
            | ConfirmOutcome::Unknown(_)
            | ConfirmOutcome::Approved(_)
            | ConfirmOutcome::ActionRequired { .. }
            | ConfirmOutcome::Busy => CardSessionOutcome::Unavailable,
        }
    }
}

fn payment_intent() -> ProviderPaymentIntentId {
    ProviderPaymentIntentId::parse("pi_1").expect("an id")
}

fn request() -> ConfirmRequest {
    ConfirmRequest { payment_intent: payment_intent(), idempotency_key: "key".to_owned(), body: Vec::new() }
}

fn behind_breaker(mood: Mood) -> Breaker<Counting> {
    let provider = Counting {
        mood: Mutex::new(mood),
        calls: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
        most_at_once: AtomicUsize::new(0),
    };
    Breaker::new(provider, LIMITS)
}

impl Breaker<Counting> {
    fn becomes(&self, mood: Mood) {
        *self.provider.mood.lock().expect("no test panics while it holds this") = mood;
    }

    fn calls(&self) -> usize {
        self.provider.calls.load(Ordering::SeqCst)
    }

    async fn pays(&self) -> ConfirmOutcome {
        self.confirm(&request()).await
    }

    async fn pay_times(&self, times: u32) {
        for _ in 0..times {
            let _outcome = self.pays().await;
        }
    }
}

const TURNED_AWAY: ConfirmOutcome = ConfirmOutcome::NotSent(NotSentReason::CircuitOpen);

/// The provider is down for ten minutes, and five customers press Pay every second. Each has a clear answer at once: proven not sent. Nothing
/// waits for the provider to come back, and within a pause after it has, customers pay again.
#[tokio::test(start_paused = true)]
async fn fault_g7_a_provider_that_is_down_is_spared_and_nothing_is_queued() {
    const MINUTES: u64 = 10;
    const CUSTOMERS: usize = 5;
    for down in [Mood::Refuses, Mood::Hangs, Mood::ServerFault] {
        let breaker = behind_breaker(Mood::Answers);
        assert_eq!(breaker.pays().await, declined());
        breaker.becomes(down);
        join_all((0..LIMITS.faults).map(|_| breaker.pays())).await;

        let (before, until) = (breaker.calls(), Instant::now() + Duration::from_mins(MINUTES));
        let (mut asked, mut turned_away) = (0, 0);
        while Instant::now() < until {
            let pay = || async {
                let began = Instant::now();
                (breaker.pays().await, Instant::now() - began)
            };
            for (outcome, waited) in join_all((0..CUSTOMERS).map(|_| pay())).await {
                asked += 1;
                if outcome == TURNED_AWAY {
                    assert_eq!(waited, Duration::ZERO, "{down:?}: at once");
                    turned_away += 1;
                }
            }
            advance(Duration::from_secs(1)).await;
        }
        let trials = breaker.calls() - before;
        assert_eq!(asked - turned_away, trials, "{down:?}: the others have tried");
        assert!(trials <= 300, "{down:?}: {trials} calls in {MINUTES} minutes, one per pause at most");
        assert_eq!(breaker.provider.at_once.load(Ordering::SeqCst), 0, "{down:?}: nothing is queued");

        breaker.becomes(Mood::Answers);
        let calls = breaker.calls();
        advance(LIMITS.pause).await;
        assert_eq!(calls, breaker.calls(), "{down:?}: nobody's payment is made later, on its own");
        assert_eq!(breaker.pays().await, declined(), "{down:?}: it answers again");
        assert_eq!(breaker.pays().await, declined());
    }
}

/// Two hundred customers press Pay at the moment when the breaker may let calls try again: one call reaches the provider, and the
/// others are told at once.
#[tokio::test(start_paused = true)]
async fn fault_g9_a_storm_at_the_half_open_breaker_sends_one_call() {
    const CALLERS: usize = 200;
    for (mood, then) in [(Mood::Slow, declined()), (Mood::Hangs, TURNED_AWAY), (Mood::Refuses, TURNED_AWAY)] {
        let breaker = behind_breaker(Mood::Refuses);
        breaker.pay_times(LIMITS.faults).await;
        assert_eq!(breaker.pays().await, TURNED_AWAY);
        breaker.becomes(mood);
        advance(LIMITS.pause).await;

        let before = breaker.calls();
        let outcomes = join_all((0..CALLERS).map(|_| breaker.pays())).await;
        assert_eq!(breaker.calls() - before, 1, "{mood:?}");
        assert_eq!(breaker.provider.most_at_once.load(Ordering::SeqCst), 1, "{mood:?}");
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == TURNED_AWAY).count(), CALLERS - 1, "{mood:?}");
        assert_eq!(breaker.pays().await, then, "{mood:?}: closed if it answered, else open again");
    }
}

/// Each call has its own way of saying that nothing was sent; none of them is a guess.
#[tokio::test(start_paused = true)]
async fn while_it_is_open_every_call_says_what_is_proven() {
    let breaker = behind_breaker(Mood::Refuses);
    breaker.pay_times(LIMITS.faults).await;
    let calls = breaker.calls();
    let new = NewPaymentIntent {
        order: "order".to_owned(),
        reference: "R-1".to_owned(),
        money: Money::new(100, crate::money::Currency::parse("EUR").expect("a currency")),
        idempotency_key: "key".to_owned(),
    };
    assert_eq!(breaker.confirm(&request()).await, TURNED_AWAY);
    assert_eq!(breaker.create_payment_intent(&new).await, CreateOutcome::NotSent(NotSentReason::CircuitOpen));
    assert_eq!(breaker.probe(&payment_intent()).await, ProbeOutcome::CannotTell(UnknownReason::NotAsked));
    assert_eq!(breaker.cancel(&payment_intent()).await, ProbeOutcome::CannotTell(UnknownReason::NotAsked));
    assert_eq!(breaker.card_session("cs_1").await, CardSessionOutcome::Unavailable);
    assert_eq!(breaker.freeze_confirm("pm", "url"), b"pmurl", "bytes need no provider");
    assert_eq!(breaker.calls(), calls);
}

/// Customers whose banks say no, a secret key that is wrong, or a provider that is busy are no outage.
#[tokio::test(start_paused = true)]
async fn what_is_no_outage_never_opens_it() {
    for mood in [Mood::Answers, Mood::KeyRefused, Mood::RateLimited, Mood::Busy, Mood::Garbage] {
        let breaker = behind_breaker(mood);
        breaker.pay_times(5 * LIMITS.faults).await;
        assert_eq!(breaker.calls(), 50, "{mood:?}");
    }
}

/// Looks count like payments: recovery learns of an outage when nobody pays, and of its end.
#[tokio::test(start_paused = true)]
async fn probes_open_and_close_it_too() {
    let breaker = behind_breaker(Mood::Refuses);
    for _ in 0..LIMITS.faults {
        let _seen = breaker.probe(&payment_intent()).await;
    }
    assert_eq!(breaker.pays().await, TURNED_AWAY);
    breaker.becomes(Mood::Answers);
    advance(LIMITS.pause).await;
    assert_eq!(breaker.probe(&payment_intent()).await, ProbeOutcome::NotCharged);
    assert_eq!(breaker.pays().await, declined());
}

/// An answer among the faults, or a long time between them, starts the count again.
#[tokio::test(start_paused = true)]
async fn only_faults_in_a_row_and_soon_after_each_other_open_it() {
    let breaker = behind_breaker(Mood::Refuses);
    for _ in 0..3 {
        breaker.becomes(Mood::Refuses);
        breaker.pay_times(LIMITS.faults - 1).await;
        breaker.becomes(Mood::Answers);
        assert_eq!(breaker.pays().await, declined());
    }
    breaker.becomes(Mood::Refuses);
    breaker.pay_times(LIMITS.faults - 1).await;
    advance(LIMITS.window + Duration::from_secs(1)).await;
    breaker.pay_times(1).await;
    breaker.becomes(Mood::Answers);
    assert_eq!(breaker.pays().await, declined());
}

/// Calls that hang, one after the other as where few pay: the third opens it, also with some time between them, and with other
/// faults. Ten would take longer than the window, so that every customer would wait for the whole time limit.
#[tokio::test(start_paused = true)]
async fn calls_that_hang_one_after_the_other_open_it() {
    for between in [Duration::ZERO, Duration::from_secs(20), LIMITS.window] {
        let breaker = behind_breaker(Mood::Hangs);
        for _ in 0..LIMITS.silences {
            assert_eq!(breaker.pays().await, ConfirmOutcome::Unknown(UnknownReason::TimedOut), "{between:?}");
            breaker.becomes(Mood::Refuses);
            let _other_fault = breaker.pays().await;
            breaker.becomes(Mood::Hangs);
            advance(between).await;
        }
        let calls = breaker.calls();
        // Where time has passed, it lets one try, which hangs as well and keeps the others from waiting.
        let began = Instant::now();
        let outcomes = join_all((0..5).map(|_| breaker.pays())).await;
        let trials = usize::from(between >= LIMITS.pause);
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == TURNED_AWAY).count(), 5 - trials, "{between:?}");
        assert_eq!(breaker.calls() - calls, trials, "{between:?}");
        assert_eq!(Instant::now() - began, Duration::from_secs(10) * u32::try_from(trials).expect("0 or 1"));
    }
}

/// An answer among them, or a long time in which nobody paid, and they have nothing to do with each other.
#[tokio::test(start_paused = true)]
async fn calls_that_hang_now_and_then_do_not_open_it() {
    let breaker = behind_breaker(Mood::Hangs);
    for _ in 0..5 {
        breaker.becomes(Mood::Hangs);
        breaker.pay_times(LIMITS.silences - 1).await;
        breaker.becomes(Mood::Answers);
        assert_eq!(breaker.pays().await, declined());
    }
    breaker.becomes(Mood::Hangs);
    for _ in 0..5 {
        assert_eq!(breaker.pays().await, ConfirmOutcome::Unknown(UnknownReason::TimedOut));
        advance(LIMITS.window + Duration::from_secs(1)).await;
    }
}

/// The longest time limit that can be set is four times the window: what counts is the pause between the calls.
#[tokio::test(start_paused = true)]
async fn how_long_a_call_may_hang_does_not_matter() {
    let mut gate = Gate { state: State::closed(Instant::now()), era: 0, opened: None };
    for n in 1..=LIMITS.silences {
        let began = Instant::now();
        advance(4 * LIMITS.window).await;
        gate.note(Health::Silent, began, &LIMITS);
        assert_eq!(matches!(gate.state, State::Open { .. }), n == LIMITS.silences, "after {n}");
    }
}

/// A call whose caller goes away while it tries leaves its place to the next.
#[tokio::test(start_paused = true)]
async fn a_trial_that_is_dropped_does_not_keep_it_half_open_for_ever() {
    let breaker = behind_breaker(Mood::Refuses);
    breaker.pay_times(LIMITS.faults).await;
    breaker.becomes(Mood::Hangs);
    advance(LIMITS.pause).await;
    let gone = tokio::time::timeout(Duration::from_secs(1), breaker.pays()).await;
    assert!(gone.is_err(), "it hung");
    breaker.becomes(Mood::Answers);
    assert_eq!(breaker.pays().await, declined());
}

/// News of a call that began before the breaker opened are old: they do not close it, neither open nor while a trial is under way.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_it_opened_closes_nothing() {
    let breaker = behind_breaker(Mood::Slow);
    let opens_meanwhile = async {
        tokio::task::yield_now().await;
        breaker.becomes(Mood::Refuses);
        breaker.pay_times(LIMITS.faults).await;
        breaker.becomes(Mood::Hangs);
        sleep(LIMITS.pause).await;
        let others = async {
            sleep(SLOWLY).await;
            breaker.pays().await
        };
        tokio::join!(breaker.pays(), others)
    };
    let (old, (trial, other)) = tokio::join!(breaker.pays(), opens_meanwhile);
    assert_eq!(old, declined());
    assert_eq!(trial, ConfirmOutcome::Unknown(UnknownReason::TimedOut));
    assert_eq!(other, TURNED_AWAY, "while the trial is under way, and after the old answer");
}

#[test]
fn the_pause_is_a_small_part_of_the_lease() {
    for lease in [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(20), Duration::from_mins(5)] {
        let pause = BreakerLimits::for_lease(lease).pause;
        assert!(pause <= lease / 10 && pause <= Duration::from_secs(2), "{lease:?}: {pause:?}");
    }
}
