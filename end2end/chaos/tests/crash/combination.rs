//! One combination: a payment, a kill at an exact boundary, and what must be true afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail, ensure};
use chaos::{
    books::{self, Heard},
    customer::{Answer, Call, Payment},
    gate::{self, Fate, Message, Moment},
    until,
    world::World,
};
use futures::future::join_all;

use crate::plan::{Combination, KillPoint, Outcome, What};

/// How much later than the lease everything must be final, once the faults have stopped.
const AFTER_LEASE_MAX: Duration = Duration::from_secs(2);
/// How often a browser comes back with the same intent before the test gives up.
const RETURNS_MAX: usize = 20;

/// How it ended.
pub struct Ended {
    pub state: String,
    pub charges: usize,
    /// From the end of the faults until the intent was final.
    pub took: Duration,
}

/// The presses of Pay that are under way.
struct Presses {
    first: Option<Call>,
    duplicates: Vec<Call>,
}

/// Runs it in a world whose victim is alive; the victim is alive again afterwards.
pub async fn run(world: &mut World, combination: Combination, lease: Duration) -> anyhow::Result<Ended> {
    let Combination { kill, outcome, .. } = combination;
    let order = world.customer.order(&world.other().shop.url(), &world.database.pool, "mug").await.context("order")?;
    let payment = Payment::of(&order, outcome.card());
    if let Some(fault) = outcome.fault(&order.id.to_string()) {
        world.ground.sandbox.fault(&fault).await?;
    }
    let mut heard = Vec::new();

    // Whoever looks after intents without an owner waits until the victim is dead, so that the victim comes by its kill point.
    let sweeps: Vec<gate::Held> = [world.victim(), world.other()]
        .into_iter()
        .filter(|_| outcome.is_unknown())
        .map(|replica| replica.statements().hold(Message::Sweep, Moment::Sent))
        .collect();
    let presses = press_and_kill(world, combination, &payment, &mut heard).await.context("until the kill")?;
    let killed = now();
    for sweep in sweeps {
        sweep.let_go(Fate::Deliver);
    }
    books::check_written_ahead(&world.database.pool, &world.ground.sandbox, &payment).await?;

    // The browser whose answer was lost asks first, and sends again only what never arrived.
    let mut answers = Vec::new();
    if let Some(first) = presses.first
        && kill != KillPoint::AnswerUnheard
    {
        answers.extend(first.answer().await);
    }
    let browser = learn(world, &payment);
    let (browser, duplicates) = tokio::join!(browser, join_all(presses.duplicates.into_iter().map(Call::answer)));
    answers.push(browser.context("the browser")?);
    for duplicate in duplicates {
        // One that died with the victim has no answer. At the other replica everybody who waits long enough hears the end.
        if !combination.duplicates.same {
            let answer = duplicate.as_ref().map_err(|error| anyhow!("a duplicate at the other replica: {error:#}"))?;
            ensure!(answer.is_final(), "a duplicate at the other replica heard {answer}");
        }
        answers.extend(duplicate);
    }
    let took = took(world, &payment, killed).await?;

    // Repeats at both replicas, the victim started anew.
    world.replicas[0].shop.restart().await?;
    for replica in &world.replicas {
        let answer = payment.pay(replica.shop.address()).await.context("a repeat afterwards")?;
        ensure!(answer.is_final() && answer.replayed, "a repeat afterwards is a replay, not {answer}");
        answers.push(answer);
    }
    for answer in answers {
        ensure!(answer.is_final() || answer.asks_to_come_back(), "a surprising answer: {answer}");
        heard.push(Heard { payment: payment.clone(), answer });
    }
    let payments = [payment];
    let accounts = books::check(&world.database.pool, &world.ground.sandbox, &payments, &heard).await?;
    let [account] = accounts.as_slice() else { bail!("one account, not {accounts:?}") };
    let state = account.state.clone().unwrap_or_default();
    ensure!((state.as_str(), account.charges) == outcome.end(), "expected {:?}, not {account:?}", outcome.end());
    ensure!(took <= lease + AFTER_LEASE_MAX, "L1: final {took:?} after the faults stopped; the lease is {lease:?}");
    Ok(Ended { state, charges: account.charges, took })
}

/// Presses Pay, waits until the victim is at its kill point, presses for the duplicates, and kills.
async fn press_and_kill(
    world: &mut World,
    combination: Combination,
    payment: &Payment,
    heard: &mut Vec<Heard>,
) -> anyhow::Result<Presses> {
    let Combination { kill, outcome, .. } = combination;
    let victim = world.victim();
    let address = victim.shop.address();
    let reserves = [victim, world.other()].map(|replica| replica.statements().count(Message::Reserve, Moment::Sent));
    let mut held = hold(world, kill, outcome);

    if kill == KillPoint::RequestUnread {
        victim.shop.pause().await?;
    }
    let mut first = Call::begin(address, payment).await?;
    if kill != KillPoint::RequestHalfSent {
        first.send_rest().await?;
    }
    if let Some(held) = &mut held {
        held.reached().await.context("the kill point")?;
    }
    if kill == KillPoint::AnswerUnheard {
        first.answer_arrives().await.context("the kill point")?;
    }
    let mut first = Some(first);
    if kill == KillPoint::AnswerHeard
        && let Some(call) = first.take()
    {
        let answer = call.answer().await.context("the kill point")?;
        ensure!(answer.is_final(), "a final answer, not {answer}");
        heard.push(Heard { payment: payment.clone(), answer });
    }

    let duplicates = press_again(world, combination, payment, reserves).await.context("duplicates")?;
    if kill == KillPoint::ConfirmUnread {
        let answers = victim.calls().count(Message::Confirm, Moment::Heard);
        victim.shop.pause().await?;
        if let Some(held) = held.take() {
            held.let_go(Fate::Deliver);
        }
        victim.calls().counts(Message::Confirm, Moment::Heard, answers + 1).await?;
    }
    world.replicas[0].shop.kill().await?;
    if let (Some(held), KillPoint::At(at)) = (held, kill) {
        after_death(world, at, outcome, held).await?;
    }
    Ok(Presses { first, duplicates })
}

fn hold(world: &World, kill: KillPoint, outcome: Outcome) -> Option<gate::Held> {
    let (what, moment) = match kill {
        KillPoint::At(held) => (held.what, held.moment),
        KillPoint::ConfirmUnread => (What::Confirm, Moment::Answered),
        KillPoint::RequestHalfSent | KillPoint::RequestUnread | KillPoint::AnswerUnheard | KillPoint::AnswerHeard => {
            return None;
        }
    };
    let (message, after) = what.message(outcome);
    let gate = if what.is_call() { world.victim().calls() } else { world.victim().statements() };
    Some(gate.hold_after(message, moment, after))
}

/// The message that was under way when its sender died is lost, or arrives all the same.
async fn after_death(world: &World, at: crate::plan::Held, outcome: Outcome, held: gate::Held) -> anyhow::Result<()> {
    let (message, _) = at.what.message(outcome);
    let gate = if at.what.is_call() { world.victim().calls() } else { world.victim().statements() };
    let answered = gate.count(message, Moment::Answered);
    held.let_go(at.fate);
    if (at.moment, at.fate) == (Moment::Sent, Fate::Deliver) {
        gate.counts(message, Moment::Answered, answered + 1).await.context("what arrives after the death")?;
    }
    Ok(())
}

/// Presses Pay with the same intent, and waits until each press has come to its reserve.
async fn press_again(
    world: &World,
    combination: Combination,
    payment: &Payment,
    reserves: [usize; 2],
) -> anyhow::Result<Vec<Call>> {
    let Combination { kill, duplicates, .. } = combination;
    let (replica, before) = if duplicates.same { (world.victim(), reserves[0]) } else { (world.other(), reserves[1]) };
    let mut calls = Vec::new();
    for _ in 0..duplicates.count {
        let mut call = Call::begin(replica.shop.address(), payment).await?;
        call.send_rest().await?;
        calls.push(call);
    }
    // A victim that stands still reserves nothing; the first press reserves only when it has come whole.
    let stands_still = duplicates.same && kill == KillPoint::RequestUnread;
    let firsts = usize::from(duplicates.same && kill != KillPoint::RequestHalfSent);
    if !stands_still {
        let count = before + firsts + duplicates.count;
        replica.statements().counts(Message::Reserve, Moment::Sent, count).await?;
    }
    Ok(calls)
}

/// What a browser does that does not know how its payment ended.
async fn learn(world: &World, payment: &Payment) -> anyhow::Result<Answer> {
    let shop = &world.other().shop;
    let mut last = None;
    for _ in 0..RETURNS_MAX {
        let outcome = world.customer.outcome(&shop.url(), payment).await?;
        if outcome["received"] == true {
            // Rows are looked at instead of asking on: a question would hasten the recovery that is measured here.
            until("a final intent", Duration::from_secs(20), || books::is_final(&world.database.pool, payment)).await?;
        }
        let answer = payment.pay(shop.address()).await?;
        if answer.is_final() {
            return Ok(answer);
        }
        last = Some(answer);
    }
    bail!("came back {RETURNS_MAX} times, last for {}", last.map(|answer| answer.to_string()).unwrap_or_default())
}

/// From the end of the faults (the kill, or the last confirm that was dropped) until the intent was final; one clock for all.
async fn took(world: &World, payment: &Payment, killed: Duration) -> anyhow::Result<Duration> {
    let calls = world.ground.sandbox.calls(&payment.order.id.to_string()).await?;
    let dropped = calls.iter().filter(|call| call["outcome"] == "dropped").filter_map(|call| call["at"].as_u64()).max();
    let stopped = killed.max(Duration::from_millis(dropped.unwrap_or_default()));
    let sql = "select (extract(epoch from finished_at) * 1000)::bigint from intents where order_id = $1 and id = $2";
    let finished: (i64,) =
        sqlx::query_as(sql).bind(payment.order.id).bind(payment.intent).fetch_one(&world.database.pool).await?;
    Ok(Duration::from_millis(finished.0.unsigned_abs()).saturating_sub(stopped))
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the clocks of Postgres and the sandbox on the same machine"
)]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
