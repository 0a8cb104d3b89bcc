//! The table: a row for each kill point and outcome, a column for each pattern of duplicates, and the sums.

use std::{fmt::Write as _, time::Duration};

use crate::{
    combination::Ended,
    plan::{Combination, DUPLICATES, KILL_POINTS, OUTCOMES},
};

/// A combination and how it ended.
pub type Run = (Combination, anyhow::Result<Ended>);

#[derive(Default)]
struct Sum {
    runs: usize,
    paid: usize,
    failed: usize,
    charges: usize,
    wrong: usize,
    slowest: Duration,
}

impl Sum {
    fn add(&mut self, end: &anyhow::Result<Ended>) {
        self.runs += 1;
        match end {
            Ok(ended) => {
                self.paid += usize::from(ended.state == "succeeded");
                self.failed += usize::from(ended.state == "failed");
                self.charges += ended.charges;
                self.slowest = self.slowest.max(ended.took);
            }
            Err(_) => self.wrong += 1,
        }
    }

    fn columns(&self) -> String {
        let Self { runs, paid, failed, charges, wrong, slowest } = self;
        let seconds = format!("{}.{:01} s", slowest.as_secs(), slowest.subsec_millis() / 100);
        format!("{runs:>5} {paid:>5} {failed:>7} {charges:>8} {wrong:>6} {seconds:>8}")
    }
}

/// All of it as text.
pub fn table(runs: &[Run]) -> String {
    // Writing to a `String` cannot fail.
    let mut text = format!("{:<31}{:<14}", "killed at", "outcome");
    for duplicates in DUPLICATES {
        let _ = write!(text, "{:<9}", duplicates.name());
    }
    text += " runs  paid  failed  charges  wrong  slowest\n";
    let mut total = Sum::default();
    for kill in KILL_POINTS {
        for outcome in OUTCOMES {
            let row: Vec<&Run> = runs.iter().filter(|(one, _)| (one.kill, one.outcome) == (kill, outcome)).collect();
            if row.is_empty() {
                continue;
            }
            let mut sum = Sum::default();
            let _ = write!(text, "{:<31}{:<14}", kill.name(), outcome.name());
            for duplicates in DUPLICATES {
                let cell = row.iter().find(|(one, _)| one.duplicates == duplicates);
                let word = cell.map_or(String::new(), |(_, end)| match end {
                    Ok(ended) if ended.state == "succeeded" => format!("paid {}", ended.charges),
                    Ok(ended) => format!("{} {}", ended.state, ended.charges),
                    Err(_) => "WRONG".to_owned(),
                });
                let _ = write!(text, "{word:<9}");
            }
            for (_, end) in row {
                sum.add(end);
                total.add(end);
            }
            text = text + &sum.columns() + "\n";
        }
    }
    text + &format!("{:<90}", "total") + &total.columns() + "\n"
}
