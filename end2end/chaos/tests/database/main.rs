//! Takes the database away from the release binary: killed, paused, failed over, full. One case after the other, each with
//! servers of its own, and a line for each. `cargo test -p chaos --test database -- p4 p5` runs those whose names hold one of
//! the words.
//!
//! Every case ends with the books: what the provider charged, what the rows say and what people were told agree.
#![expect(clippy::print_stdout, reason = "the lines are what this program is for")]

mod disk;
mod failover;
mod gone;
#[cfg(target_os = "linux")]
mod power;
mod restore;
mod stand;

use std::{process::ExitCode, time::Duration};

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

/// One case: the making of its servers, its outage, and a lot of patience for a busy machine.
const CASE_SECONDS_MAX: Duration = Duration::from_mins(2);

type Case = (&'static str, fn() -> BoxFuture<'static, anyhow::Result<String>>);

/// All cases: the fault's number, and what is promised under it.
const CASES: &[Case] = &[
    ("p1_a_backend_killed_hard_takes_all_others_with_it_and_no_payment", || Box::pin(gone::backend_killed())),
    ("p2_a_postmaster_killed_hard_again_and_again_loses_nothing_that_was_answered", || Box::pin(gone::server_killed())),
    ("p3_the_disk_of_these_cases_keeps_what_was_synced_and_nothing_else", || Box::pin(power::disk_loses())),
    ("p3_power_lost_takes_what_was_not_synced_and_nothing_that_was_acknowledged", || Box::pin(power::lost())),
    ("p3_control_a_server_that_does_not_sync_loses_and_nobody_is_charged_twice", || Box::pin(power::lost_unsynced())),
    ("p6_a_server_that_stands_still_for_10_s_is_told_within_9_s_and_charges_nothing", || {
        Box::pin(gone::server_paused())
    }),
    ("p4_what_was_paid_stays_paid_on_the_promoted_standby", || Box::pin(failover::standby_promoted())),
    ("p5_a_row_that_the_failover_lost_is_reserved_again_and_charged_once", || Box::pin(failover::wait_cancelled())),
    ("t2_a_standby_whose_clock_is_an_hour_ahead_charges_nobody_twice", || Box::pin(failover::clocks_differ("1 hour"))),
    ("t2_a_standby_whose_clock_is_an_hour_behind_leaves_nothing_unresolved", || {
        Box::pin(failover::clocks_differ("-1 hour"))
    }),
    ("x2_a_restored_backup_charges_nobody_again_who_comes_again", || Box::pin(restore::restored())),
    ("p7_a_full_disk_refuses_the_reserve_and_delays_the_settle", || Box::pin(disk::data_full())),
    ("p7_a_full_log_takes_the_server_down_and_no_payment_with_it", || Box::pin(disk::log_full())),
];

/// Only Linux has file systems of processes without further programs.
#[cfg(not(target_os = "linux"))]
mod power {
    pub async fn lost() -> anyhow::Result<String> {
        anyhow::bail!("this case needs a disk that loses what was not synced, which can be had on Linux only")
    }

    pub use lost as disk_loses;
    pub use lost as lost_unsynced;
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let (mut passed, mut failed, began) = (0, 0, Instant::now());
    for (name, case) in CASES.iter().filter(|(name, _)| wanted(name)) {
        let since = Instant::now();
        let end = timeout(CASE_SECONDS_MAX, case()).await;
        let seconds = since.elapsed().as_secs_f32();
        match end {
            Ok(Ok(seen)) => {
                passed += 1;
                println!("ok     {name} ({seconds:.1} s): {seen}");
            }
            Ok(Err(error)) => {
                failed += 1;
                println!("WRONG  {name} ({seconds:.1} s)\n  {error:#}");
            }
            Err(_) => {
                failed += 1;
                println!("WRONG  {name}: did not end within {CASE_SECONDS_MAX:?}");
            }
        }
    }
    let word = if failed == 0 && passed > 0 { "ok" } else { "FAILED" };
    let seconds = began.elapsed().as_secs();
    println!("test result: {word}. {passed} passed; {failed} failed; finished in {seconds} s");
    if word == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
