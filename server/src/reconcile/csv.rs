//! Open discrepancies as CSV (RFC 4180), for a spreadsheet.
//!
//! Promise: a cell is text to every program that reads it: what a spreadsheet would take for a formula begins with an apostrophe.

use payments::reconcile::finding::Open;
use time::format_description::well_known::Rfc3339;

const HEAD: [&str; 11] = [
    "kind",
    "order",
    "intent",
    "charge",
    "refund",
    "payment_intent",
    "expected_minor",
    "expected_currency",
    "reported_minor",
    "reported_currency",
    "found_at",
];

/// One line for each, under a head.
pub fn of(open: &[Open]) -> String {
    let mut csv = line(HEAD.map(str::to_owned));
    for open in open {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        csv.push_str(&line([
            open.kind.clone(),
            open.order_id.map(|id| id.to_string()).unwrap_or_default(),
            open.intent_id.map(|id| id.to_string()).unwrap_or_default(),
            text(&open.charge),
            text(&open.refund),
            text(&open.payment_intent),
            open.expected_minor.map(|minor| minor.to_string()).unwrap_or_default(),
            text(&open.expected_currency),
            open.reported_minor.map(|minor| minor.to_string()).unwrap_or_default(),
            text(&open.reported_currency),
            open.found_at.format(&Rfc3339).unwrap_or_default(),
        ]));
    }
    csv
}

fn line(cells: [String; HEAD.len()]) -> String {
    format!("{}\r\n", cells.map(|text| cell(&text)).join(","))
}

/// A cell: harmless, and quoted where it has to be.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use payments::reconcile::finding::Open;
    use time::OffsetDateTime;

    use super::{cell, of};

    #[test]
    fn no_cell_is_a_formula_and_no_cell_is_two() {
        for (text, expected) in [
            ("ch_1", "ch_1"),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@sum(a1)", "'@sum(a1)"),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("two\r\nlines", "\"two\r\nlines\""),
            ("=a,b", "\"'=a,b\""),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
    }

    #[test]
    fn each_discrepancy_is_one_line_under_the_head() {
        let open = Open {
            kind: "only_ours".to_owned(),
            order_id: None,
            intent_id: None,
            charge: Some("=cmd".to_owned()),
            refund: None,
            payment_intent: None,
            expected_minor: Some(4990),
            expected_currency: Some("EUR".to_owned()),
            reported_minor: None,
            reported_currency: None,
            found_at: OffsetDateTime::UNIX_EPOCH,
        };
        let csv = of(&[open]);
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines[1], "only_ours,,,'=cmd,,,4990,EUR,,,1970-01-01T00:00:00Z");
        assert_eq!((lines.len(), lines[2]), (3, ""), "every line ends");
    }
}
