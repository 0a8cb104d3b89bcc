//! The answer to a repeat, compared with one look-up of a primary key through the same stack.

use bytes::Bytes;

use crate::{
    Plan,
    load::{self, Loop},
    orders,
    report::{Better, Report, median, progress},
    shop::{self, Shop},
};

/// Repeats at the same time.
const SENDERS: usize = 8;
/// Finished payments that are repeated.
const PAID: i64 = 1_000;
/// Where their numbers begin, away from those of the other part.
const FIRST: i64 = orders::NUMBER_MAX / 4;

pub async fn measure(plan: &Plan, shop: &Shop, report: &mut Report) -> anyhow::Result<()> {
    orders::make(&shop.database, FIRST, PAID).await?;
    let to = shop.replicas[0].addr;
    let pay = |number: i64| orders::pay_body(FIRST + number.rem_euclid(PAID));
    load::one_by_one(to, FIRST, PAID, |answer| !answer.replayed).await?;
    sqlx::query("create table bench_bodies (id text primary key, body bytea not null)").execute(&shop.database).await?;
    sqlx::query("insert into bench_bodies select id::text, archive_body from intents where order_id = id and archive_body is not null")
        .execute(&shop.database)
        .await?;
    sqlx::query("vacuum (analyze) bench_bodies, intents, orders").execute(&shop.database).await?;

    let addr = shop::free_port()?;
    let mut command = shop.beside(&std::env::current_exe()?.to_string_lossy());
    command.args(["select", &addr.to_string(), &shop.database_url]);
    let _selecting = shop::Running::start(command)?;
    let select =
        |number: i64| -> Bytes { format!(r#"{{"id":"{}"}}"#, orders::uuid(FIRST + number.rem_euclid(PAID))).into() };
    shop::ready_to_connect(addr).await?;

    let (mut of_replay, mut of_select, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds() {
        let replaying = Loop { to, path: "/rpc/pay", connections: SENDERS, time: plan.round() / 2, first: 0 };
        let replays = load::closed_loop(replaying, pay, |answer| answer.replayed).await?;
        let selecting = Loop { to: addr, path: "/select", ..replaying };
        let selects = load::closed_loop(selecting, select, |answer| !answer.body.is_empty()).await?;
        let [replay, select] = [&replays, &selects].map(|round| round.quantile(0.99).as_secs_f64() * 1e3);
        progress(&format!(
            "round {}: replay p50 {:.2} ms, p99 {replay:.2} ms, {:.0}/s; select p50 {:.2} ms, p99 {select:.2} ms, {:.0}/s",
            round + 1,
            replays.quantile(0.5).as_secs_f64() * 1e3,
            replays.per_second(),
            selects.quantile(0.5).as_secs_f64() * 1e3,
            selects.per_second(),
        ));
        of_replay.push(replay);
        of_select.push(select);
        ratios.push(replay / select);
    }
    report.heading("A repeat, and a look-up of a primary key through the same stack (p99 in ms)");
    report.series("replay p99", &of_replay);
    report.series("select p99", &of_select);
    report.value("replay ÷ select, median of the rounds", median(&ratios), Some((1.30, Better::Lower)));
    Ok(())
}
