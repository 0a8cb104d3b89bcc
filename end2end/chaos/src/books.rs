//! The checker: compares what the provider did, what our rows say, and what people were told. Invariants have their names.
//!
//! Promise: [`check`] looks at everything that it is given and tells all that is wrong, not only the first. It changes nothing.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use serde_json::Value;
use sqlx::{FromRow, PgPool};

use crate::{
    customer::{Answer, Payment},
    sandbox::Sandbox,
};

/// What somebody was told of a payment.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Which payment.
    pub payment: Payment,
    /// What was told.
    pub answer: Answer,
}

/// How a payment stands in the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The intent's state; `None` where it was never reserved.
    pub state: Option<String>,
    /// How many charges the provider made for the order.
    pub charges: usize,
}

/// Rules of the whole database: what changes together is there together.
const RULES: &[(&str, &str)] = &[
    (
        "I12: an order with two intents that are under way or paid",
        "select count(*) from (select from intents where operation = 'pay' and state <> 'failed'
            group by order_id having count(*) > 1) as wrong",
    ),
    (
        "I13: a final intent without an archived answer",
        "select count(*) from intents where finished_at is not null and archive_body is null",
    ),
    (
        "I13: a final intent without exactly one event that tells its end",
        "select count(*) from intents i where finished_at is not null and 1 <> (
            select count(*) from outbox_events e
            where e.operation = i.operation and e.order_id = i.order_id and e.intent_id = i.id
                and e.kind = 'intent_' || i.state and e.payload = i.archive_body)",
    ),
    (
        "I13: an event of an intent without an end",
        "select count(*) from outbox_events e where not exists (
            select from intents i where i.order_id = e.order_id and i.id = e.intent_id and i.finished_at is not null)",
    ),
    (
        "I13: a paid order without a paid intent, or the reverse",
        "select count(*) from orders o
            where (o.state = 'paid') <> exists (select from ledger_entries l where l.order_id = o.id)
                or exists (select from intents i where i.operation = 'pay' and i.order_id = o.id and i.state = 'succeeded'
                    and (o.state, o.paid_intent, o.charge) is distinct from ('paid', i.id, i.charge))",
    ),
    (
        "I13: a paid intent without its two ledger entries",
        "select count(*) from intents i where i.state = 'succeeded' and 2 <> (
            select count(*) from ledger_entries l
            where l.order_id = i.order_id and l.intent_id = i.id and l.charge = coalesce(i.charge, i.provider_refund)
                and abs(l.amount_minor) = i.amount_minor and l.currency = i.currency)",
    ),
    (
        "I11: an order's sum of refunds that is not that of its refunds, or more than its charge",
        "select count(*) from orders o
            where refund_reserved_minor + refunded_elsewhere_minor > amount_minor
                or refund_reserved_minor + refunded_elsewhere_minor <> (
                    select coalesce(sum(i.amount_minor), 0) from intents i
                    where i.operation = 'refund' and i.order_id = o.id and i.refunded_charge = o.charge
                        and i.state <> 'failed' and i.reversed_at is null)",
    ),
    (
        "I14: ledger entries of an intent that do not sum to zero",
        "select count(*) from (select from ledger_entries
            group by operation, order_id, intent_id having sum(amount_minor) <> 0 or count(*) <> 2) as wrong",
    ),
];

#[derive(FromRow)]
struct IntentRow {
    state: String,
    archive_content_type: Option<String>,
    archive_body: Option<Vec<u8>>,
}

/// Checks the invariants for these payments, for the whole database, and for all that was heard; tells how each payment stands.
///
/// # Errors
/// All that is wrong, in one text, each with its invariant's name.
pub async fn check(
    db: &PgPool,
    sandbox: &Sandbox,
    payments: &[Payment],
    heard: &[Heard],
) -> anyhow::Result<Vec<Account>> {
    let mut wrong = Wrong::default();
    let mut accounts = Vec::new();
    for payment in payments {
        let charges = sandbox.charges(&payment.order.id.to_string()).await?;
        let keys = provider_keys(db, payment).await?;
        charges_fit(&mut wrong, payment, &charges, &keys);
        confirms_fit(&mut wrong, &sandbox.calls(&payment.order.id.to_string()).await?, &keys);
        ledger_fits(&mut wrong, db, payment, &charges).await?;
        let row = find(db, payment).await?;
        let of_this = heard.iter().filter(|heard| heard.payment.intent == payment.intent);
        answers_fit(&mut wrong, payment, row.as_ref(), &charges, of_this.map(|heard| &heard.answer));
        accounts.push(Account { state: row.map(|row| row.state), charges: charges.len() });
    }
    for (rule, sql) in RULES {
        let (count,): (i64,) = sqlx::query_as(*sql).fetch_one(db).await.context(*rule)?;
        if count != 0 {
            wrong.add(format_args!("{rule} ({count})"));
        }
    }
    wrong.end().map(|()| accounts)
}

/// Checks at any moment that nothing was sent to the provider for an intent that was not reserved before.
///
/// # Errors
/// I7, when something was.
pub async fn check_written_ahead(db: &PgPool, sandbox: &Sandbox, payment: &Payment) -> anyhow::Result<()> {
    // In this order: what was sent before this look was reserved before it, too.
    let calls = sandbox.calls(&payment.order.id.to_string()).await?;
    let confirms = calls.iter().filter(|call| call["call"] == "confirm").count();
    if confirms > 0 && find(db, payment).await?.is_none() {
        bail!("I7: {confirms} confirms were sent for intent {}, which was never reserved", payment.intent);
    }
    Ok(())
}

/// Whether this payment is final.
///
/// # Errors
/// When the database does not answer.
pub async fn is_final(db: &PgPool, payment: &Payment) -> anyhow::Result<bool> {
    let state = find(db, payment).await?.map(|row| row.state);
    Ok(matches!(state.as_deref(), Some("succeeded" | "failed")))
}

/// Everything that is stored of an order, as text, to compare it with itself later.
///
/// # Errors
/// When the database does not answer.
pub async fn snapshot(db: &PgPool, payment: &Payment) -> anyhow::Result<String> {
    let sql = "select
        (select jsonb_agg(to_jsonb(o)) from orders o where o.id = $1)::text
        || (select jsonb_agg(to_jsonb(i) order by i.id) from intents i where i.order_id = $1)::text
        || coalesce((select jsonb_agg(to_jsonb(l) order by l.id) from ledger_entries l where l.order_id = $1)::text, '')
        || coalesce((select jsonb_agg(to_jsonb(e) order by e.id) from outbox_events e where e.order_id = $1)::text, '')
        || coalesce((select jsonb_agg(to_jsonb(d) order by d.id) from discrepancies d where d.order_id = $1)::text, '')";
    let (text,) = sqlx::query_as(sql).bind(payment.order.id).fetch_one(db).await?;
    Ok(text)
}

async fn find(db: &PgPool, payment: &Payment) -> anyhow::Result<Option<IntentRow>> {
    let sql = "select state, archive_content_type, archive_body from intents
        where operation = 'pay' and order_id = $1 and id = $2";
    Ok(sqlx::query_as(sql).bind(payment.order.id).bind(payment.intent).fetch_optional(db).await?)
}

/// The keys that follow from the order's intents, and no others.
async fn provider_keys(db: &PgPool, payment: &Payment) -> anyhow::Result<Vec<String>> {
    let sql = "select 'payonce:' || operation || ':' || order_id || ':' || id from intents where order_id = $1";
    Ok(sqlx::query_scalar(sql).bind(payment.order.id).fetch_all(db).await?)
}

fn charges_fit(wrong: &mut Wrong, payment: &Payment, charges: &[Value], keys: &[String]) {
    let order = &payment.order;
    if charges.len() > 1 {
        wrong.add(format_args!("I1: order {} was charged {} times: {charges:?}", order.id, charges.len()));
    }
    for charge in charges {
        let currency = charge["currency"].as_str().unwrap_or_default().to_uppercase();
        if charge["amount"] != order.amount || currency != order.currency {
            wrong.add(format_args!("I2: order {} costs {} {}: {charge}", order.id, order.amount, order.currency));
        }
        let key = charge["idempotency_key"].as_str().unwrap_or_default();
        if !keys.iter().any(|known| known == key) {
            wrong.add(format_args!("I9: order {} was charged under the key {key:?}", order.id));
        }
    }
}

/// Each confirm names the key derived from its intent, and the provider found the same bytes under it each time. One that comes
/// after its payment intent was cancelled is refused for that.
fn confirms_fit(wrong: &mut Wrong, calls: &[Value], keys: &[String]) {
    let is_cancelled = |payment_intent: &Value, before: &Value| {
        let cancels = calls.iter().filter(|call| call["call"] == "cancel" && call["status"] == 200);
        let mut of_this = cancels.filter(|call| call["payment_intent"] == *payment_intent);
        of_this.any(|call| call["number"].as_u64() < before.as_u64())
    };
    for call in calls.iter().filter(|call| call["call"] == "confirm") {
        let key = call["idempotency_key"].as_str().unwrap_or_default();
        if !keys.iter().any(|known| known == key) {
            wrong.add(format_args!("I9: a confirm under a key that is not its intent's: {call}"));
        }
        if call["status"] == 400 && !is_cancelled(&call["payment_intent"], &call["number"]) {
            wrong.add(format_args!("I9: a confirm with other bytes under a used key: {call}"));
        }
    }
}

/// What is booked is what was captured, or a discrepancy tells.
async fn ledger_fits(wrong: &mut Wrong, db: &PgPool, payment: &Payment, charges: &[Value]) -> anyhow::Result<()> {
    let sql = "select charge, amount_minor from ledger_entries
        where order_id = $1 and operation = 'pay' and account = 'provider_receivable' order by charge";
    let booked: Vec<(String, i64)> = sqlx::query_as(sql).bind(payment.order.id).fetch_all(db).await?;
    let (doubts,): (i64,) = sqlx::query_as("select count(*) from discrepancies where order_id = $1")
        .bind(payment.order.id)
        .fetch_one(db)
        .await?;
    let mut captured: Vec<(String, i64)> = charges
        .iter()
        .map(|charge| (charge["id"].as_str().unwrap_or_default().to_owned(), charge["amount"].as_i64().unwrap_or(0)))
        .collect();
    captured.sort();
    let sql = "select coalesce(-sum(amount_minor), 0)::bigint from ledger_entries
        where order_id = $1 and operation = 'refund' and account = 'provider_receivable'";
    let (given_back,): (i64,) = sqlx::query_as(sql).bind(payment.order.id).fetch_one(db).await?;
    let refunded = charges.iter().map(|charge| charge["refunded"].as_i64().unwrap_or(0)).sum::<i64>();
    if given_back != refunded {
        wrong.add(format_args!("I14: order {}: booked back {given_back}, refunded {refunded}", payment.order.id));
    }
    if booked != captured && doubts == 0 {
        wrong.add(format_args!("I14: order {}: booked {booked:?}, captured {captured:?}", payment.order.id));
    }
    Ok(())
}

fn answers_fit<'a>(
    wrong: &mut Wrong,
    payment: &Payment,
    row: Option<&IntentRow>,
    charges: &[Value],
    answers: impl Iterator<Item = &'a Answer>,
) {
    let intent = payment.intent;
    let state = row.map(|row| row.state.to_uppercase());
    if state.as_deref() == Some("SUCCEEDED") && charges.is_empty() {
        wrong.add(format_args!("I3: intent {intent} is stored as paid, and nothing was charged"));
    }
    let mut first: Option<&Answer> = None;
    for answer in answers.filter(|answer| answer.is_final()) {
        let told = answer.json().map(|json| json["state"].clone()).unwrap_or_default();
        if told == "SUCCEEDED" && charges.is_empty() {
            wrong.add(format_args!("I3: intent {intent} was told as paid, and nothing was charged: {answer}"));
        }
        if told.as_str() != state.as_deref() {
            wrong.add(format_args!("I4: intent {intent} is {state:?} and was told as {answer}"));
        }
        // All answers came through one door, whose status for a decline is not the archive's; the bytes are.
        let archived = row.and_then(|row| Some((row.archive_content_type.as_deref()?, row.archive_body.as_deref()?)));
        if archived != Some((&answer.content_type, &answer.body)) {
            let archived = archived.map(|(kind, body)| (kind, String::from_utf8_lossy(body)));
            wrong.add(format_args!("I5: intent {intent}: archived {archived:?}, told {answer}"));
        }
        let first = *first.get_or_insert(answer);
        if (first.status, &first.content_type, &first.body) != (answer.status, &answer.content_type, &answer.body) {
            wrong.add(format_args!("I5: intent {intent}: told {first}, then {answer}"));
        }
    }
}

/// What was found, one line each.
#[derive(Default)]
struct Wrong(String);

impl Wrong {
    fn add(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.0, "  {what}");
    }

    fn end(self) -> anyhow::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        bail!("the books do not balance:\n{}", self.0.trim_end())
    }
}
