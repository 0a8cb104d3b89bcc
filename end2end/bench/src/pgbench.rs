//! The yardstick: pgbench runs the recorded statements of a payment, on orders like those that the shop pays.
//!
//! A transaction of pgbench is one payment: reserve, then settle, each a statement and a commit of its own, prepared, over as many
//! connections as the shop's pool has. What the shop sends as a parameter is here an expression of the order's number.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, bail};

use crate::{orders, recorded::Statement, shop::POOL_SIZE};

/// The two statements of a payment, as a script.
pub struct Script(String);

/// How a round of pgbench went.
pub struct Round {
    pub transactions: i64,
    pub per_second: f64,
}

/// The order's number in a script: each client counts from a start of its own, so that no two ever name the same order.
const NUMBER: &str = ":n";
/// Where the numbers of its orders begin, away from those that the shop pays.
pub const FIRST: i64 = orders::NUMBER_MAX / 2;
/// How many orders each client has to itself.
pub const ORDERS_PER_CLIENT: i64 = 1_000_000;

impl Script {
    /// Makes the script, or says which parameter of which statement it does not know.
    pub fn of(statements: &[Statement], calls: i64) -> anyhow::Result<Self> {
        let with = |what: &str| {
            let mut fitting =
                statements.iter().filter(|statement| statement.calls == calls && statement.text.contains(what));
            fitting.next().with_context(|| format!("no statement that contains {what:?} ran once for each payment"))
        };
        let number = NUMBER;
        let uuid = format!("(('00000000-0000-4000-8000-' || lpad(to_hex({number}::bigint), 12, '0'))::uuid)");
        let charge = format!("('ch_pi_' || ({number}::bigint)::text)");
        let body = format!(
            "convert_to('{{\"intent\":\"' || {uuid}::text || '\",\"state\":\"SUCCEEDED\",\"amount\":4990,\"currency\":\"EUR\",\
             \"charge\":\"' || {charge} || '\",\"paid_at\":\"2026-01-01T00:00:00Z\"}}', 'UTF8')"
        );
        let reserve = with("insert into intents")?;
        let reserve = filled(
            &reserve.text,
            &[
                &format!("('b' || lpad(({number}::bigint)::text, 21, '0'))"),
                &uuid,
                &format!("sha256(int8send({number}::bigint))"),
                &orders::AMOUNT_MINOR.to_string(),
                "'EUR'",
                "'ana@example.org'",
                "null::uuid",
                "'\\x7061796d656e745f6d6574686f643d706d5f636172645f7669736126657870616e645b5d3d6c61746573745f636861726765'::bytea",
                &uuid,
                "120.0::double precision",
            ],
        )?;
        let settle = with("state = 'succeeded', charge")?;
        let settle = filled(
            &settle.text,
            &[
                "'pay'",
                &uuid,
                &uuid,
                ":r_fence::bigint",
                &charge,
                "'2026-01-01 00:00:00+00'::timestamptz",
                "200::smallint",
                "'application/json'",
                &body,
                &format!("{}::bigint", orders::AMOUNT_MINOR),
                "'EUR'",
                // No event told it.
                "null::bigint",
            ],
        )?;
        Ok(Self(format!(
            "\\set i :i + 1\n\\set n :first + :client_id * {ORDERS_PER_CLIENT} + :i\n{} \\gset r_\n{};\n",
            one_line(&reserve),
            one_line(&settle)
        )))
    }

    /// Runs it by this command on this database; `done` is how many orders of each client are paid already.
    pub fn run(&self, mut command: Command, database: &str, time: Duration, done: i64) -> anyhow::Result<Round> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(&file, &self.0)?;
        command
            .args(["--no-vacuum", "--protocol=prepared", "--jobs=1"])
            .args([format!("--client={POOL_SIZE}"), format!("--time={}", time.as_secs().max(1))])
            .args(["--define".to_owned(), format!("first={FIRST}"), "--define".to_owned(), format!("i={done}")])
            .arg(format!("--file={}", file.path().display()))
            .arg(database);
        let output = command.output().context("pgbench cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("pgbench failed:\n{said}\n{errors}");
        }
        let number = |label: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(label))?;
            line.trim().split([' ', '/']).next()?.parse::<f64>().ok()
        };
        let transactions = number("number of transactions actually processed:").context("pgbench's count")?;
        let per_second = number("tps =").context("pgbench's rate")?;
        Ok(Round { transactions: transactions as i64, per_second })
    }
}

/// The statement with its parameters replaced; fails unless there are as many as are known.
fn filled(statement: &str, values: &[&str]) -> anyhow::Result<String> {
    let most = (1..100).take_while(|nth| mentions(statement, *nth)).count();
    if most != values.len() {
        bail!(
            "a statement has {most} parameters, and the benchmark knows {}: it must learn what is new\n{statement}",
            values.len()
        );
    }
    let mut filled = statement.to_owned();
    for (nth, value) in values.iter().enumerate().rev() {
        filled = filled.replace(&format!("${}", nth + 1), value);
    }
    Ok(filled)
}

fn mentions(statement: &str, nth: usize) -> bool {
    let name = format!("${nth}");
    statement
        .match_indices(&name)
        .any(|(at, _)| !statement[at + name.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// pgbench reads a backslash command up to the end of its line, and makes variables of the columns' names, which must be plain.
fn one_line(statement: &str) -> String {
    statement.split_whitespace().collect::<Vec<_>>().join(" ").replace("?\"", "\"").replace("!\"", "\"")
}
