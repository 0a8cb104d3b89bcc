//! Whatever goes wrong under `/api` is said as a problem, also by the router itself.

use sqlx::PgPool;

use super::{Program, Reply};
use crate::house::House;

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn addresses_and_methods_that_there_are_not_are_problems(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    for path in
        ["/api", "/api/", "/api/v1", "/api/v1/refunds", "/api/v2/orders", "/api/v1/orders/", "/api/v1/orders/%zz/x"]
    {
        for method in ["GET", "POST", "DELETE"] {
            let reply = Reply::of(program.request(method, 0, path).send().await.unwrap()).await;
            reply.assert_problem(404, "not-found");
        }
    }
    for (method, path, allow) in [
        ("GET", "/api/v1/orders", "POST"),
        ("PUT", "/api/v1/orders", "POST"),
        ("DELETE", "/api/v1/orders/x", "GET,HEAD"),
        ("PATCH", "/api/v1/orders/x/payments", "POST"),
        ("POST", "/api/v1/intents/x", "GET,HEAD"),
    ] {
        let reply = Reply::of(program.request(method, 0, path).send().await.unwrap()).await;
        reply.assert_problem(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
    let page = house.http.get(format!("{}/apis", house.url())).send().await.unwrap();
    assert!(page.text().await.unwrap().starts_with("<!DOCTYPE html>"), "people are told as people");
}

/// The database is gone: no charge, a clear answer, and the truth about what is known.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn without_a_database_nothing_is_sent_and_a_known_program_is_told_so(db: PgPool) {
    let house = House::new(db).await;
    let program = Program::new(&house).await;
    let order = program.order("mug").await;
    house.replicas[0].ctx.pool.close().await;
    let reply = program.pay(&order, &crate::house::uuid(), &super::good_payment(&order)).await;
    let problem = reply.assert_problem(503, "unavailable");
    assert_eq!((&problem["outcome"], &problem["safe_to_retry"]), (&"unknown".into(), &true.into()));
    assert!(reply.header("retry-after").is_some());
    let stranger = Program { key: format!("payonce_{}", "a".repeat(32)), house: &house, id: program.id };
    stranger.get("/api/v1/orders/x").await.assert_problem(503, "unavailable");
    house.assert_not_charged(&super::as_browser(&house, &order).await).await;
}
