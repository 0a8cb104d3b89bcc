//! The report as a person reads it in a terminal.

use std::collections::BTreeSet;

use payments::{
    money::{Currency, Money},
    reconcile::{
        finding::Open,
        report::{Report, Sums},
    },
};
use time::format_description::well_known::Rfc3339;

/// Counts and sums, then what is open.
pub fn of(report: &Report) -> String {
    let mut lines = vec![period(report), String::new()];
    lines.extend(compared(report));
    let tally = &report.tally;
    lines.push(String::new());
    lines.push(format!(
        "{} settled, {} recovered, {} healed, {} new, {} open",
        tally.settled, tally.recovered, tally.healed, tally.told, report.open_total
    ));
    if !report.open.is_empty() {
        lines.push(String::new());
        lines.extend(open(&report.open));
    }
    let beyond = report.open_total.saturating_sub(u64::try_from(report.open.len()).unwrap_or(u64::MAX));
    if beyond > 0 {
        lines.push(format!("and {beyond} more"));
    }
    if let Some(reason) = &report.ended_early {
        lines.extend([String::new(), format!("NOT FINISHED: {reason}. The next run begins where this one did.")]);
    }
    lines.join("\n")
}

fn period(report: &Report) -> String {
    let from = report.from.format(&Rfc3339).unwrap_or_default();
    let until = report.until.and_then(|until| until.format(&Rfc3339).ok()).unwrap_or_else(|| "now".to_owned());
    let how = if report.dry_run { ", looking only" } else { "" };
    format!("Compared from {from} until {until}{how}.")
}

fn compared(report: &Report) -> Vec<String> {
    let tally = &report.tally;
    let mut rows = vec![["", "currency", "provider", "", "ours", ""].map(str::to_owned)];
    for (what, theirs, ours) in [
        ("charges", &tally.charges_theirs, &tally.charges_ours),
        ("refunds", &tally.refunds_theirs, &tally.refunds_ours),
    ] {
        let currencies: BTreeSet<&Currency> = theirs.0.keys().chain(ours.0.keys()).collect();
        if currencies.is_empty() {
            rows.push([what, "", "0", "", "0", ""].map(str::to_owned));
        }
        for currency in currencies {
            let [(theirs, their_sum), (ours, our_sum)] = [theirs, ours].map(|sums| sum(sums, *currency));
            rows.push([what.to_owned(), currency.code().to_owned(), theirs, their_sum, ours, our_sum]);
        }
    }
    aligned(&rows, &[2, 3, 4, 5])
}

fn sum(sums: &Sums, currency: Currency) -> (String, String) {
    let sum = sums.0.get(&currency).copied().unwrap_or_default();
    let minor = i64::try_from(sum.minor).map(|minor| Money::new(minor, currency).format());
    (sum.count.to_string(), minor.unwrap_or_else(|_beyond| format!("{} minor units", sum.minor)))
}

fn open(open: &[Open]) -> Vec<String> {
    let mut rows = vec![["kind", "order", "charge or refund", "ours", "provider", "found"].map(str::to_owned)];
    for open in open {
        rows.push([
            printable(&open.kind),
            open.order_id.map(|id| id.to_string()).unwrap_or_default(),
            printable(open.refund.as_deref().or(open.charge.as_deref()).unwrap_or_default()),
            money(open.expected_minor, open.expected_currency.as_deref()),
            money(open.reported_minor, open.reported_currency.as_deref()),
            open.found_at.format(&Rfc3339).unwrap_or_default(),
        ]);
    }
    aligned(&rows, &[3, 4])
}

fn money(minor: Option<i64>, currency: Option<&str>) -> String {
    let currency = currency.and_then(|code| Currency::parse(code).ok());
    minor.zip(currency).map(|(minor, currency)| Money::new(minor, currency).format()).unwrap_or_default()
}

/// Nothing that would move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// Columns under each other, those of numbers to the right.
fn aligned<const N: usize>(rows: &[[String; N]], right: &[usize]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let cell = |(column, text): (usize, &String)| {
        let width = widths.get(column).copied().unwrap_or(0);
        if right.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
    };
    let line =
        |row: &[String; N]| row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned();
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn columns_stand_under_each_other_and_numbers_end_under_each_other() {
        let rows = [["kind", "ours"], ["only_ours", "€4.90"], ["x", "€1,204.90"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows, &[1]), ["kind            ours", "only_ours      €4.90", "x          €1,204.90"]);
    }
}
