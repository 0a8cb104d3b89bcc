//! Executors that stand still and go on, a cold start, and a network that loses answers and says things twice.
//!
//! Names say which row of the catalogue of faults it is. Each test that pays ends with [`books::check`].
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where, and stop")]

mod clock;
mod inbox;
mod refunds;
mod statements;

use std::{sync::Arc, time::Duration};

use chaos::{
    books::{self, Heard},
    customer::{Answer, Call, DECLINED_CARD, GOOD_CARD, Payment},
    gate::{Fate, Gate, Message, Moment},
    shop::Plan,
    until,
    world::{Ground, Replica, World},
};
use futures::{StreamExt as _, future::join_all, stream};
use serde_json::json;
use tokio::time::Instant;

/// How long the executor stands still, in leases.
const PAUSE_LEASES: u32 = 2;
/// How long an executor may take to write what it knows, once it goes on.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much later than the lease everything must be final, once the faults have stopped.
const AFTER_LEASE_MAX: Duration = Duration::from_secs(2);

fn gate(replica: &Replica, message: Message) -> &Gate {
    if matches!(message, Message::Confirm | Message::Retrieve) { replica.calls() } else { replica.statements() }
}

async fn new_payment(world: &World, card: &str) -> Payment {
    let shop = world.other().shop.url();
    let order = world.customer.order(&shop, &world.database.pool, "mug").await.unwrap();
    Payment::of(&order, card)
}

/// How a payment with this card ends: state and charges.
fn end_of(card: &str) -> (&'static str, usize) {
    if card == GOOD_CARD { ("succeeded", 1) } else { ("failed", 0) }
}

/// The provider misbehaves at the next confirm of this payment.
async fn misbehave_once(ground: &Ground, payment: &Payment, kind: &str) {
    let of_order = json!({"path": "confirm", "order": payment.order.id});
    ground.sandbox.fault(&json!({"match": of_order, "fault": {"kind": kind}, "next": 1})).await.unwrap();
}

async fn press(replica: &Replica, payment: &Payment) -> Call {
    let mut call = Call::begin(replica.shop.address(), payment).await.unwrap();
    call.send_rest().await.unwrap();
    call
}

/// Repeats the payments at every replica, and checks the books with these answers and all that were heard before.
async fn repeat_and_check(world: &World, payments: &[Payment], mut heard: Vec<Heard>, state: &str, charges: usize) {
    for payment in payments {
        for replica in &world.replicas {
            let answer = payment.pay(replica.shop.address()).await.unwrap();
            assert!(answer.is_final() && answer.replayed, "a replay, not {answer}");
            heard.push(Heard { payment: payment.clone(), answer });
        }
    }
    let accounts = books::check(&world.database.pool, &world.ground.sandbox, payments, &heard).await.unwrap();
    for account in accounts {
        assert_eq!((account.state.as_deref(), account.charges), (Some(state), charges));
    }
}

/// Where an executor stands still.
#[derive(Clone, Copy, Debug)]
struct Stop {
    message: Message,
    /// How many such messages it sends before.
    after: usize,
    moment: Moment,
    /// What it had just sent arrives only when the other replica has taken over and finished.
    late: bool,
}

const fn stop(message: Message, after: usize, moment: Moment, late: bool) -> Stop {
    Stop { message, after, moment, late }
}

/// How many attempts of this replica to write an outcome have come to their end.
fn writes(replica: &Replica) -> usize {
    let of = |message| replica.statements().count(message, Moment::Heard);
    of(Message::Succeed) + of(Message::Fail) + of(Message::Rest)
}

/// Pauses the executor of one payment for two leases.
async fn pause_at(ground: Arc<Ground>, card: &str, fault: Option<&str>, stop: Stop) {
    let plan = Plan::default();
    let world = World::new(&ground, 2, &plan).await.unwrap();
    let (victim, db) = (world.victim(), &world.database.pool);
    let payment = new_payment(&world, card).await;
    if let Some(fault) = fault {
        misbehave_once(&ground, &payment, fault).await;
    }
    // Nobody takes over what the executor has let go of for a moment, until it stands still.
    let sweeps = world.replicas.iter().map(|replica| replica.statements().hold(Message::Sweep, Moment::Sent));
    let sweeps: Vec<_> = sweeps.collect();
    let mut held = gate(victim, stop.message).hold_after(stop.message, stop.moment, stop.after);
    let call = press(victim, &payment).await;
    held.reached().await.unwrap();
    let written = writes(victim);
    victim.shop.pause().await.unwrap();
    let paused = Instant::now();
    for sweep in sweeps {
        sweep.let_go(Fate::Deliver);
    }
    let held = if stop.late {
        Some(held)
    } else {
        held.let_go(Fate::Deliver);
        None
    };

    until("the other replica finishes", plan.lease + AFTER_LEASE_MAX, || books::is_final(db, &payment)).await.unwrap();
    let before = books::snapshot(db, &payment).await.unwrap();
    tokio::time::sleep_until(paused + plan.lease * PAUSE_LEASES).await;
    if let Some(held) = held {
        held.let_go(Fate::Deliver);
    }
    victim.shop.resume().unwrap();

    // The customer of the one that had stood still hears what everybody hears, once it has tried to write.
    let answer = call.answer().await.unwrap();
    assert!(answer.is_final(), "{stop:?}: {answer}");
    // What it knows by then is the provider's answer, or only that its lease is over.
    until("it has tried to write", PATIENCE, || async { Ok(writes(victim) > written) }).await.unwrap();
    assert_eq!(books::snapshot(db, &payment).await.unwrap(), before, "{stop:?}: nothing changed");
    let heard = vec![Heard { payment: payment.clone(), answer }];
    let (state, charges) = end_of(card);
    repeat_and_check(&world, &[payment], heard, state, charges).await;
}

/// The executor stands still for two leases at each boundary of its work; another replica takes over. What the first one still
/// sends to the provider charges nothing more, and what it still writes changes no row.
#[tokio::test(flavor = "multi_thread")]
async fn fault_k2_an_executor_that_stood_still_changes_nothing_when_it_goes_on() {
    let ground = Ground::new().await.unwrap();
    let mut runs = Vec::new();
    for (card, settle) in [(GOOD_CARD, Message::Succeed), (DECLINED_CARD, Message::Fail)] {
        for stop in [
            stop(Message::Reserve, 0, Moment::Answered, false),
            stop(Message::Confirm, 0, Moment::Sent, false),
            stop(Message::Confirm, 0, Moment::Sent, true),
            stop(Message::Confirm, 0, Moment::Answered, false),
            stop(settle, 0, Moment::Sent, false),
            stop(settle, 0, Moment::Sent, true),
            stop(settle, 0, Moment::Answered, false),
        ] {
            runs.push(pause_at(Arc::clone(&ground), card, None, stop));
        }
    }
    // The same where the first confirm never arrived. The last but two goes on with an old truth: "not charged yet".
    for stop in [
        stop(Message::Rest, 0, Moment::Sent, true),
        stop(Message::Claim, 0, Moment::Answered, false),
        stop(Message::Retrieve, 0, Moment::Answered, false),
        stop(Message::Confirm, 1, Moment::Sent, true),
        stop(Message::Confirm, 1, Moment::Answered, false),
    ] {
        runs.push(pause_at(Arc::clone(&ground), GOOD_CARD, Some("drop_before"), stop));
    }
    // Each is a world of two replicas; more at once would be more than Postgres has connections.
    stream::iter(runs).buffer_unordered(8).collect::<Vec<()>>().await;
}

/// Every replica is killed with payments at every stage. After a cold start all of them come to their end by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn fault_k5_after_a_cold_start_every_payment_comes_to_its_end() {
    let ground = Ground::new().await.unwrap();
    let plan = Plan::default();
    let mut world = World::new(&ground, 2, &plan).await.unwrap();
    let (mut payments, mut held) = (Vec::new(), Vec::new());
    for replica in [0, 1] {
        for (message, moment, fate) in [
            (Message::Reserve, Moment::Sent, Fate::Deliver),
            (Message::Reserve, Moment::Answered, Fate::Lose),
            (Message::Confirm, Moment::Sent, Fate::Lose),
            (Message::Confirm, Moment::Sent, Fate::Deliver),
            (Message::Confirm, Moment::Answered, Fate::Lose),
            (Message::Succeed, Moment::Sent, Fate::Lose),
            (Message::Succeed, Moment::Sent, Fate::Deliver),
            (Message::Succeed, Moment::Answered, Fate::Lose),
        ] {
            let replica = &world.replicas[replica];
            let payment = new_payment(&world, GOOD_CARD).await;
            let mut hold = gate(replica, message).hold(message, moment);
            let call = press(replica, &payment).await;
            hold.reached().await.unwrap();
            payments.push(payment);
            held.push((hold, fate, call));
        }
    }
    for replica in &mut world.replicas {
        replica.shop.kill().await.unwrap();
    }
    for (hold, fate, _) in held {
        hold.let_go(fate);
    }
    let (first, second) = world.replicas.split_at_mut(1);
    let (one, other) = tokio::join!(first[0].shop.restart(), second[0].shop.restart());
    one.and(other).unwrap();

    let db = &world.database.pool;
    let patience = plan.lease + AFTER_LEASE_MAX;
    let waits = payments.iter().map(|payment| until("an end", patience, move || books::is_final(db, payment)));
    for took in join_all(waits).await {
        took.unwrap();
    }
    repeat_and_check(&world, &payments, Vec::new(), "succeeded", 1).await;
}

/// The answer is lost between replica and browser. The browser asks, and gets the same bytes again wherever it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn fault_d1_a_lost_answer_is_given_again() {
    let ground = Ground::new().await.unwrap();
    let world = World::new(&ground, 2, &Plan::default()).await.unwrap();
    for card in [GOOD_CARD, DECLINED_CARD] {
        let (state, charges) = end_of(card);
        let payment = new_payment(&world, card).await;
        let call = press(world.victim(), &payment).await;
        call.answer_arrives().await.unwrap();
        drop(call);
        let outcome = world.customer.outcome(&world.other().shop.url(), &payment).await.unwrap();
        assert_eq!(outcome["received"], json!(true), "{outcome}");
        repeat_and_check(&world, &[payment], Vec::new(), state, charges).await;
    }
}

/// The database commits, and its answer is lost. The statement that runs again finds what it did: one charge, one pair of
/// ledger entries, one event.
#[tokio::test(flavor = "multi_thread")]
async fn fault_d2_a_lost_answer_of_the_database_is_found_out_by_asking_again() {
    let ground = Ground::new().await.unwrap();
    let world = World::new(&ground, 2, &Plan::default()).await.unwrap();
    for (card, message, fault) in [
        (GOOD_CARD, Message::Reserve, None),
        (GOOD_CARD, Message::Succeed, None),
        (DECLINED_CARD, Message::Reserve, None),
        (DECLINED_CARD, Message::Fail, None),
        (GOOD_CARD, Message::Rest, Some("charge_then_drop")),
        (GOOD_CARD, Message::Succeed, Some("charge_then_drop")),
    ] {
        let payment = new_payment(&world, card).await;
        if let Some(fault) = fault {
            misbehave_once(&ground, &payment, fault).await;
        }
        let gate = world.victim().statements();
        let asked = gate.count(message, Moment::Sent);
        gate.lose(message, Moment::Answered);
        let answer = payment.pay(world.victim().shop.address()).await.unwrap();
        assert!(answer.is_final(), "{message:?}: {answer}");
        assert!(gate.count(message, Moment::Sent) > asked + 1, "{message:?}: the statement ran again");
        let (state, charges) = end_of(card);
        let heard = vec![Heard { payment: payment.clone(), answer }];
        repeat_and_check(&world, &[payment], heard, state, charges).await;
    }
}

/// The network delivers one request many times, to both replicas, at once. It is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn fault_d3_a_request_that_arrives_many_times_is_executed_once() {
    let ground = Ground::new().await.unwrap();
    let world = World::new(&ground, 2, &Plan::default()).await.unwrap();
    for card in [GOOD_CARD, DECLINED_CARD] {
        let (state, charges) = end_of(card);
        let payment = new_payment(&world, card).await;
        let everywhere = world.replicas.iter().cycle().take(8);
        let calls = join_all(everywhere.map(|replica| payment.pay(replica.shop.address()))).await;
        let answers: Vec<Answer> = calls.into_iter().map(Result::unwrap).collect();
        assert!(answers.iter().all(Answer::is_final), "{answers:?}");
        let confirms = ground.sandbox.calls(&payment.order.id.to_string()).await.unwrap();
        assert_eq!(confirms.iter().filter(|call| call["call"] == "confirm").count(), 1, "one confirm: {confirms:?}");
        let heard = answers.into_iter().map(|answer| Heard { payment: payment.clone(), answer }).collect();
        repeat_and_check(&world, &[payment], heard, state, charges).await;
    }
}
