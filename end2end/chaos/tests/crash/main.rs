//! Kills a replica at every boundary of the six hops, under every outcome and with every pattern of duplicates, and prints one
//! table. `cargo test -p chaos --test crash -- reserve lost` runs the combinations whose names hold all of these words.
//!
//! A kill point that was not reached is a failure. Everything is bounded, the whole by ten minutes.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod combination;
mod plan;
mod table;

use std::{
    collections::VecDeque,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chaos::{
    shop::Plan,
    world::{Ground, World},
};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{plan::Combination, table::Run};

/// The whole test.
const TEST_MINUTES_MAX: Duration = Duration::from_mins(10);
/// One combination: a lease, a restart, and a lot of patience for a busy machine.
const COMBINATION_SECONDS_MAX: Duration = Duration::from_mins(1);
/// Worlds side by side. Most of a combination is waiting for a lease.
const WORLDS: usize = 8;
/// A line of progress after so many combinations.
const PROGRESS_EVERY: usize = 20;

type Queue = Arc<Mutex<VecDeque<Combination>>>;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut all = plan::combinations();
    all.retain(|combination| words.iter().all(|word| combination.name().contains(word)));
    let started = Instant::now();
    let runs = match timeout(TEST_MINUTES_MAX, sweep(&all)).await {
        Ok(Ok(runs)) => runs,
        Ok(Err(error)) => return fail(&format!("{error:#}")),
        Err(_) => return fail("ten minutes are over"),
    };
    for (combination, end) in &runs {
        if let Err(error) = end {
            println!("\nWRONG  {}\n  {error:#}", combination.name());
        }
    }
    println!("\n{}", table::table(&runs));
    let passed = runs.iter().filter(|(_, end)| end.is_ok()).count();
    let failed = all.len() - passed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = started.elapsed().as_secs();
    println!("test result: {word}. {passed} passed; {failed} failed; finished in {seconds} s");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(reason: &str) -> ExitCode {
    println!("{reason}\ntest result: FAILED. 0 passed; 1 failed");
    ExitCode::FAILURE
}

async fn sweep(all: &[Combination]) -> anyhow::Result<Vec<Run>> {
    let ground = Ground::new().await?;
    let queue: Queue = Arc::new(Mutex::new(all.iter().copied().collect()));
    let (tell, mut told) = unbounded_channel();
    let mut workers = JoinSet::new();
    for _ in 0..WORLDS.min(all.len()) {
        workers.spawn(work(Arc::clone(&ground), Arc::clone(&queue), tell.clone()));
    }
    drop(tell);
    let mut runs: Vec<Run> = Vec::new();
    while let Some(run) = told.recv().await {
        runs.push(run);
        if runs.len().is_multiple_of(PROGRESS_EVERY) {
            let wrong = runs.iter().filter(|(_, end)| end.is_err()).count();
            println!("{} of {} combinations, {wrong} wrong", runs.len(), all.len());
        }
    }
    for worker in workers.join_all().await {
        worker?;
    }
    Ok(runs)
}

/// Takes combinations until there are none, in a world of its own.
async fn work(ground: Arc<Ground>, queue: Queue, tell: UnboundedSender<Run>) -> anyhow::Result<()> {
    let plan = Plan::default();
    let mut world = World::new(&ground, 2, &plan).await?;
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(combination) = next else { return Ok(()) };
        let run = combination::run(&mut world, combination, plan.lease);
        let end = match timeout(COMBINATION_SECONDS_MAX, run).await {
            Ok(end) => end,
            Err(_) => Err(anyhow::anyhow!("not over after {COMBINATION_SECONDS_MAX:?}")),
        };
        let end = end.map_err(|error| anyhow::anyhow!("{error:#}\n{}", world.logs()));
        let is_wrong = end.is_err();
        tell.send((combination, end))?;
        if is_wrong {
            // What is wrong in it would be found again with the next combination.
            world = World::new(&ground, 2, &plan).await?;
        }
    }
}
