//! The sandbox's own pages, plain HTML without scripts: what it is and what it has charged, the bank's question, and
//! problems. Everything that came from outside is escaped.

use std::fmt::Write as _;

use crate::cards::{TEST_CARDS, TestCard};
use crate::clock;
use crate::money;
use crate::records::{Charge, Intent};
use crate::state::State;

const STYLE: &str = include_str!("pages.css");
const MAX_LEDGER_ROWS: usize = 50;

/// The start page.
pub fn home(state: &State, address: &str, faults: usize) -> String {
    let misbehaving = match faults {
        0 => String::new(),
        1 => "<p class=\"bad\">One fault is set: this provider misbehaves on purpose.</p>".to_owned(),
        count => format!("<p class=\"bad\">{count} faults are set: this provider misbehaves on purpose.</p>"),
    };
    let body = format!(
        r#"<main>
<p class="tag">Sandbox: no real money</p>
<h1>A payment provider to try a checkout with</h1>
<p>The shop sends its payments here. This provider takes test cards, answers as a real one would, and keeps a ledger of
everything that it really charged. It listens on <code>{address}</code>.</p>
{misbehaving}
<h2 id="ledger">Ledger</h2>
{ledger}
<h2 id="cards">Test cards</h2>
<p class="soft">Any month to come, any security code of three digits (four for American Express), any name.
Cards that are not in this list are refused, so a real card can do nothing here.</p>
{cards}
<h2 id="control">For tests</h2>
<p class="soft">The same ledger as JSON: <a href="/_sandbox/ledger"><code>/_sandbox/ledger</code></a>.
The newest calls: <a href="/_sandbox/calls"><code>/_sandbox/calls</code></a>.
The newest deliveries of events: <a href="/_sandbox/deliveries"><code>/_sandbox/deliveries</code></a>.
Faults that are set: <a href="/_sandbox/faults"><code>/_sandbox/faults</code></a>.</p>
</main>"#,
        address = escape(address),
        ledger = ledger(state),
        cards = cards(),
    );
    document("Sandbox provider", &body)
}

/// The bank's question.
pub fn bank(intent: &Intent, step: u32) -> String {
    let reference = intent.metadata.get("reference").or_else(|| intent.metadata.get("order"));
    let order = reference.map(|order| format!("<p class=\"soft\">Order {}</p>", escape(order))).unwrap_or_default();
    let body = format!(
        r#"<main class="narrow">
<p class="tag">Sandbox: no real money</p>
<div class="card">
<h1>Your bank (sandbox)</h1>
<p>A shop asks for a payment with your card. Do you approve it?</p>
<p class="amount">{amount}</p>
{order}
<form method="post" action="/bank/{id}">
<input type="hidden" name="step" value="{step}">
<button name="decision" value="approve">Approve</button>
<button name="decision" value="refuse" class="quiet">Refuse</button>
</form>
</div>
</main>"#,
        amount = escape(&money::display(intent.amount, &intent.currency)),
        id = escape(&intent.id),
    );
    document("Your bank (sandbox)", &body)
}

/// A page that says what is wrong and what to do.
pub fn problem(title: &str, what: &str) -> String {
    let (heading, what) = (escape(title), escape(what));
    let body = format!(
        "<main class=\"narrow\">\n<p class=\"tag\">Sandbox: no real money</p>\n<div class=\"card\">\n<h1>{heading}</h1>\n<p>{what}</p>\n</div>\n</main>"
    );
    document(title, &body)
}

fn ledger(state: &State) -> String {
    let mut rows = String::new();
    let mut more = 0;
    for (count, charge) in state.charges.newest_rows_first().filter(|charge| charge.succeeded()).enumerate() {
        if count < MAX_LEDGER_ROWS {
            rows.push_str(&ledger_row(charge));
        } else {
            more += 1;
        }
    }
    if rows.is_empty() {
        return "<div class=\"scroll\"><p class=\"empty\">Nothing was charged yet. Pay for something in the shop.</p></div>"
            .to_owned();
    }
    let older = if more > 0 { format!("<p class=\"soft\">And {more} older ones.</p>") } else { String::new() };
    format!(
        r#"<div class="scroll" tabindex="0" role="region" aria-labelledby="ledger"><table>
<thead><tr><th scope="col" class="right">Amount</th><th scope="col">Order</th><th scope="col">Status</th><th scope="col">When</th><th scope="col">Card</th><th scope="col">Charge</th></tr></thead>
<tbody>{rows}</tbody>
</table></div>{older}"#
    )
}

fn ledger_row(charge: &Charge) -> String {
    let reference = charge.metadata.get("reference").or_else(|| charge.metadata.get("order"));
    let status = if charge.amount_disputed > 0 {
        format!("Disputed, {} taken back", escape(&money::display(charge.amount_disputed, &charge.currency)))
    } else if charge.amount_refunded == 0 {
        "<span class=\"good\">Paid</span>".to_owned()
    } else if charge.amount_refunded == charge.amount {
        "Refunded".to_owned()
    } else {
        format!("Paid, {} refunded", escape(&money::display(charge.amount_refunded, &charge.currency)))
    };
    format!(
        "<tr><td class=\"right number\">{}</td><td class=\"whole\">{}</td><td>{status}</td><td class=\"number\">{}</td><td class=\"whole\">{} {}</td><td class=\"id\">{}</td></tr>\n",
        escape(&money::display(charge.amount, &charge.currency)),
        reference.map_or_else(|| "—".to_owned(), |reference| escape(reference)),
        clock::display(charge.created),
        brand_name(&charge.payment_method.brand),
        escape(&charge.payment_method.last4),
        escape(&charge.id),
    )
}

fn cards() -> String {
    let mut rows = String::new();
    for card in TEST_CARDS {
        // Writing into a String cannot fail.
        writeln!(
            rows,
            "<tr><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>",
            grouped(card),
            escape(card.does),
            brand_name(card.brand())
        )
        .ok();
    }
    format!(
        r#"<div class="scroll" tabindex="0" role="region" aria-labelledby="cards"><table>
<thead><tr><th scope="col">Number</th><th scope="col">What it does</th><th scope="col">Brand</th></tr></thead>
<tbody>{rows}</tbody>
</table></div>"#
    )
}

fn brand_name(brand: &str) -> &'static str {
    match brand {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" => "American Express",
        "discover" => "Discover",
        "diners" => "Diners Club",
        "jcb" => "JCB",
        "unionpay" => "UnionPay",
        _ => "Card",
    }
}

/// A card number as it is printed on cards: in fours, American Express in 4, 6, 5.
fn grouped(card: &TestCard) -> String {
    let ends: &[usize] = if card.brand() == "amex" { &[4, 10] } else { &[4, 8, 12] };
    let mut shown = String::new();
    for (place, digit) in card.number.chars().enumerate() {
        if ends.contains(&place) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
        escape(title)
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
