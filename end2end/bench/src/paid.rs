//! Paid checkouts in a second, as a share of what pgbench gets out of the same Postgres with the same statements.

use std::time::Duration;

use anyhow::ensure;
use sqlx::PgPool;

use crate::{
    Plan,
    load::{self, Loop},
    orders,
    pgbench::{self, ORDERS_PER_CLIENT, Script},
    recorded,
    report::{Better, Report, median, progress},
    shop::{POOL_SIZE, Shop},
};

/// Customers who pay at the same time: twice as many as the pool has connections, since each is also at the provider.
const CUSTOMERS: usize = 32;
/// Payments whose statements are recorded.
const RECORDED: i64 = 200;
/// Orders for one second of a round, more than any machine pays.
const ORDERS_PER_SECOND: i64 = 4_000;

/// A look at how often the database committed.
async fn commits(pool: &PgPool) -> anyhow::Result<i64> {
    // A backend tells its counts at most once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let sql = "select xact_commit from pg_stat_database where datname = current_database()";
    Ok(sqlx::query_scalar(sql).fetch_one(pool).await?)
}

async fn succeeded(pool: &PgPool) -> anyhow::Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from intents where state = 'succeeded'").fetch_one(pool).await?)
}

pub async fn measure(plan: &Plan, shop: &Shop, report: &mut Report) -> anyhow::Result<()> {
    let script = record(plan, shop, report).await?;

    // Shop and pgbench in turns, so that a slower minute of the machine hits both.
    let mut answered = usize::try_from(RECORDED)?;
    let (mut of_shop, mut of_pgbench, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds() {
        let round = i64::try_from(round)?;
        let (next, done) = prepare(plan, &shop.database, round).await?;
        let paying = Loop {
            to: shop.replicas[0].addr,
            path: "/rpc/pay",
            connections: CUSTOMERS,
            time: plan.round(),
            first: next,
        };
        let measure_pgbench = async || {
            let before = succeeded(&shop.database).await?;
            let pgbench = shop.beside(&plan.postgres_bin.join("pgbench").to_string_lossy());
            let yardstick = script.run(pgbench, &shop.database_url, plan.round(), done)?;
            let more = succeeded(&shop.database).await? - before;
            ensure!(more == yardstick.transactions, "{} transactions made {more} payments", yardstick.transactions);
            anyhow::Ok(yardstick)
        };
        let measure_shop = async || {
            let before = succeeded(&shop.database).await?;
            let paid = load::closed_loop(paying, orders::pay_body, |answer| !answer.replayed).await?;
            let more = succeeded(&shop.database).await? - before;
            ensure!(more == i64::try_from(paid.answered)?, "{} answers made {more} payments", paid.answered);
            anyhow::Ok(paid)
        };
        // Who comes first right after a checkpoint writes more; so they take turns.
        let (paid, yardstick) = if round % 2 == 0 {
            let paid = measure_shop().await?;
            (paid, measure_pgbench().await?)
        } else {
            let yardstick = measure_pgbench().await?;
            (measure_shop().await?, yardstick)
        };
        answered += paid.answered;
        progress(&format!(
            "round {}: shop {:.0}/s (p99 {:.1} ms), pgbench {:.0}/s",
            round + 1,
            paid.per_second(),
            paid.quantile(0.99).as_secs_f64() * 1e3,
            yardstick.per_second
        ));
        of_shop.push(paid.per_second());
        of_pgbench.push(yardstick.per_second);
        ratios.push(paid.per_second() / yardstick.per_second);
    }
    let counts = shop.counts().await?;
    report.heading("Paid checkouts in a second, and pgbench with the very statements");
    report.series("shop", &of_shop);
    report.series("pgbench", &of_pgbench);
    report.value("shop ÷ pgbench, median of the rounds", median(&ratios), Some((0.60, Better::Higher)));
    report.value("charges of the provider", counts.charges as f64, None);
    report.value("double charges", counts.doubled as f64, Some((0.0, Better::Lower)));
    ensure!(counts.charges == answered, "{} charges for {answered} payments", counts.charges);
    ensure!(counts.doubled == 0, "I1: {} payment intents were charged twice", counts.doubled);
    Ok(())
}

/// What one payment costs, and which statements it is.
async fn record(plan: &Plan, shop: &Shop, report: &mut Report) -> anyhow::Result<Script> {
    orders::make(&shop.database, 1, RECORDED).await?;
    recorded::begin(&shop.database).await?;
    let commits_before = commits(&shop.database).await?;
    load::one_by_one(shop.replicas[0].addr, 1, RECORDED, |answer| !answer.replayed).await?;
    let statements = recorded::end(&shop.database, &plan.queries).await?;
    let committed = commits(&shop.database).await? - commits_before;
    report.heading("One payment");
    let of_payments: i64 = statements.iter().filter(|of| of.calls >= RECORDED).map(|of| of.calls).sum();
    report.value("statements", of_payments as f64 / RECORDED as f64, Some((2.0, Better::Lower)));
    report.value(
        "commits, with a few of recovery's and of the looking itself",
        committed as f64 / RECORDED as f64,
        None,
    );
    Script::of(&statements, RECORDED)
}

/// Makes the orders of one round; gives the number of the shop's first, and how many each client of pgbench has paid.
async fn prepare(plan: &Plan, database: &PgPool, round: i64) -> anyhow::Result<(i64, i64)> {
    let of_shop = i64::try_from(plan.round().as_secs())? * ORDERS_PER_SECOND;
    let of_client = of_shop / i64::from(POOL_SIZE) * 2;
    let (next, done) = (RECORDED + 1 + round * of_shop, round * of_client);
    orders::make(database, next, of_shop).await?;
    for client in 0..i64::from(POOL_SIZE) {
        orders::make(database, pgbench::FIRST + client * ORDERS_PER_CLIENT + done + 1, of_client).await?;
    }
    for statement in ["vacuum (analyze) orders", "vacuum (analyze) intents", "checkpoint"] {
        sqlx::query(statement).execute(database).await?;
    }
    Ok((next, done))
}
