//! The report of a run: what was compared, what was repaired, and what is open.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::finding::Open;
use crate::money::{Currency, Money};

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    /// From when on was compared.
    pub from: OffsetDateTime,
    /// Until when; `None`: until its end.
    pub until: Option<OffsetDateTime>,
    /// Nothing was written.
    pub dry_run: bool,
    /// Counts and sums.
    pub tally: Tally,
    /// Every open discrepancy, oldest first, up to [`crate::limits::REPORT_ROWS`].
    pub open: Vec<Open>,
    /// How many are open.
    pub open_total: u64,
    /// Why it did not come to its end. The next run begins where this one did.
    pub ended_early: Option<String>,
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Charges that succeeded, as the provider lists them.
    pub charges_theirs: Sums,
    /// Charges that our intents succeeded by: one for each payment, however many tries it took.
    pub charges_ours: Sums,
    /// Refunds of the provider's that did not fail.
    pub refunds_theirs: Sums,
    /// Refunds of ours that succeeded.
    pub refunds_ours: Sums,
    /// Intents whose outcome was not known and is known now.
    pub settled: u64,
    /// Payments that were lost and are brought back.
    pub recovered: u64,
    /// Discrepancies that are new.
    pub told: u64,
    /// Discrepancies that have healed.
    pub healed: u64,
}

/// A count and a sum for each currency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub BTreeMap<Currency, Sum>);

/// A count and a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their sum, in minor units; wide enough for any number of amounts.
    pub minor: i128,
}

impl Tally {
    /// What was compared in one piece.
    pub(super) fn add(&mut self, piece: &Self) {
        for (all, of_piece) in [
            (&mut self.charges_theirs, &piece.charges_theirs),
            (&mut self.charges_ours, &piece.charges_ours),
            (&mut self.refunds_theirs, &piece.refunds_theirs),
            (&mut self.refunds_ours, &piece.refunds_ours),
        ] {
            for (currency, sum) in &of_piece.0 {
                let all = all.0.entry(*currency).or_default();
                all.count += sum.count;
                all.minor += sum.minor;
            }
        }
    }
}

impl Sums {
    /// One more.
    pub(super) fn add(&mut self, money: Money) {
        let sum = self.0.entry(money.currency).or_default();
        sum.count += 1;
        sum.minor += i128::from(money.minor);
    }

    /// All of them, of whatever currency.
    pub fn count(&self) -> u64 {
        self.0.values().map(|sum| sum.count).sum()
    }
}
