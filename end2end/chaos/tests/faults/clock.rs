//! The database's clock jumps by an hour, as after a failover to a server whose clock differs.

use std::{sync::Arc, time::Duration};

use chaos::{
    books::{self, Heard},
    clock,
    customer::GOOD_CARD,
    gate::{Fate, Message, Moment},
    shop::Plan,
    until,
    world::{Ground, World},
};
use futures::{StreamExt as _, stream};

use super::{AFTER_LEASE_MAX, gate, misbehave_once, new_payment, press, repeat_and_check};

const HOUR: i64 = 3_600;
/// How soon a lease is taken over that a jump has ended: recovery's pause, and some for a busy machine.
const AFTER_JUMP_MAX: Duration = Duration::from_secs(5);
/// What the lease is worth when the clock has fallen back: it is given an end in sight within one, and has that end after another.
const LEASES_AFTER_FALL: u32 = 3;

async fn world(ground: &Arc<Ground>, plan: &Plan) -> World {
    let database = ground.cluster.database().await.unwrap();
    clock::install(&database.pool).await.unwrap();
    World::on(ground, database, 2, plan).await.unwrap()
}

/// The clock jumps ahead while a message of a healthy executor is on its way, with a lease that would have lasted for long. The
/// other replica finishes; what the first one still sends charges nobody, and what it still writes changes no row.
async fn jump_ahead_at(ground: Arc<Ground>, message: Message, moment: Moment, end: (&str, usize)) {
    let plan = Plan { lease: Duration::from_secs(30), provider_timeout: Duration::from_secs(20), ..Plan::default() };
    let world = world(&ground, &plan).await;
    let (victim, db) = (world.victim(), &world.database.pool);
    let payment = new_payment(&world, GOOD_CARD).await;
    let mut held = gate(victim, message).hold(message, moment);
    let call = press(victim, &payment).await;
    held.reached().await.unwrap();
    clock::jump(db, HOUR).await.unwrap();

    until("the other replica finishes", AFTER_JUMP_MAX, || books::is_final(db, &payment)).await.unwrap();
    let before = books::snapshot(db, &payment).await.unwrap();
    let settles = victim.statements().count(Message::Succeed, Moment::Heard);
    held.let_go(Fate::Deliver);
    let answer = call.answer().await.unwrap();
    assert!(answer.is_final(), "{message:?} {moment:?}: {answer}");
    if (message, moment) != (Message::Confirm, Moment::Sent) {
        victim.statements().counts(Message::Succeed, Moment::Heard, settles + 1).await.unwrap();
    }
    assert_eq!(books::snapshot(db, &payment).await.unwrap(), before, "{message:?} {moment:?}: nothing changed");
    let heard = vec![Heard { payment: payment.clone(), answer }];
    repeat_and_check(&world, &[payment], heard, end.0, end.1).await;
}

/// Nobody is charged twice. Whom the jump makes overdue before the confirm has come to the provider is told "not charged", since
/// the payment intent was cancelled there: the late confirm is refused.
#[tokio::test(flavor = "multi_thread")]
async fn fault_t2_a_clock_that_jumps_ahead_charges_nobody_twice() {
    let ground = Ground::new().await.unwrap();
    let (paid, not_paid) = (("succeeded", 1), ("failed", 0));
    let runs = [
        (Message::Confirm, Moment::Sent, not_paid),
        (Message::Confirm, Moment::Answered, paid),
        (Message::Succeed, Moment::Sent, paid),
        (Message::Succeed, Moment::Answered, paid),
    ];
    let runs = runs.map(|(message, moment, end)| jump_ahead_at(Arc::clone(&ground), message, moment, end));
    stream::iter(runs).buffer_unordered(4).collect::<Vec<()>>().await;
}

/// The clock falls back, and the executor dies with a lease that now ends in an hour. Or it has let go, and the next look is due
/// in an hour.
async fn fall_back_at(ground: Arc<Ground>, message: Message, moment: Moment, fault: Option<&str>, end: (&str, usize)) {
    let plan = Plan::default();
    let mut world = world(&ground, &plan).await;
    let payment = new_payment(&world, GOOD_CARD).await;
    if let Some(fault) = fault {
        misbehave_once(&ground, &payment, fault).await;
    }
    // It reserves an hour ahead of what the other replica will live in.
    clock::jump(&world.database.pool, HOUR).await.unwrap();
    let sweeps = world.replicas.iter().map(|replica| replica.statements().hold(Message::Sweep, Moment::Sent));
    let sweeps: Vec<_> = sweeps.collect();
    let mut held = gate(world.victim(), message).hold(message, moment);
    let call = press(world.victim(), &payment).await;
    held.reached().await.unwrap();
    clock::jump(&world.database.pool, -HOUR).await.unwrap();
    world.replicas[0].shop.kill().await.unwrap();
    held.let_go(Fate::Lose);
    for sweep in sweeps {
        sweep.let_go(Fate::Deliver);
    }
    drop(call);
    let (db, patience) = (&world.database.pool, plan.lease * LEASES_AFTER_FALL + AFTER_LEASE_MAX);
    let ended = until("an end", patience, || books::is_final(db, &payment)).await;
    assert!(ended.is_ok(), "{message:?} {moment:?}: {ended:?}\n{}", world.logs());
    world.replicas[0].shop.restart().await.unwrap();
    repeat_and_check(&world, &[payment], Vec::new(), end.0, end.1).await;
}

/// Nothing stays unresolved for the hour: a lease that ends further away than leases last is brought near. What was charged is
/// booked. What was not is cancelled at the provider, since nobody can tell any more by when the customer was to know.
#[tokio::test(flavor = "multi_thread")]
async fn fault_t2_a_clock_that_falls_back_leaves_nothing_unresolved() {
    let ground = Ground::new().await.unwrap();
    let (paid, not_paid) = (("succeeded", 1), ("failed", 0));
    let runs = [
        (Message::Reserve, Moment::Answered, None, not_paid),
        (Message::Confirm, Moment::Sent, None, not_paid),
        (Message::Confirm, Moment::Answered, None, paid),
        (Message::Succeed, Moment::Sent, None, paid),
        (Message::Rest, Moment::Answered, Some("charge_then_drop"), paid),
        (Message::Rest, Moment::Answered, Some("drop_before"), not_paid),
    ];
    let runs = runs.map(|(message, moment, fault, end)| fall_back_at(Arc::clone(&ground), message, moment, fault, end));
    stream::iter(runs).buffer_unordered(3).collect::<Vec<()>>().await;
}

/// A healthy executor whose clock falls back among its payment goes on: its fence is still the newest.
#[tokio::test(flavor = "multi_thread")]
async fn fault_t2_a_healthy_executor_goes_on_whatever_the_clock_says() {
    let ground = Ground::new().await.unwrap();
    let world = world(&ground, &Plan::default()).await;
    for jump in [HOUR, -HOUR] {
        let payment = new_payment(&world, GOOD_CARD).await;
        let mut held = world.victim().calls().hold(Message::Confirm, Moment::Answered);
        let call = press(world.victim(), &payment).await;
        held.reached().await.unwrap();
        clock::jump(&world.database.pool, jump).await.unwrap();
        held.let_go(Fate::Deliver);
        let answer = call.answer().await.unwrap();
        let heard = vec![Heard { payment: payment.clone(), answer }];
        repeat_and_check(&world, &[payment], heard, "succeeded", 1).await;
    }
}
