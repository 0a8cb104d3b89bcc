//! Rate limits: what is too much starts nothing, is told when to come back, and then pays under the same key.

use serde_json::json;
use server::guard::{GuardOptions, proxies::Proxies, rate::Rate};
use sqlx::PgPool;

use super::{Program, Reply, as_browser, good_payment};
use crate::house::{Answer, GOOD_CARD, House, Plan, until, uuid};

fn rate(per_second: u32, burst: u32) -> Rate {
    Rate { per_second: per_second.try_into().ok(), burst: burst.try_into().ok() }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_program_that_calls_too_often_is_told_when_to_come_back_and_then_pays(db: PgPool) {
    let guard = GuardOptions { api_key: rate(1, 3), ..GuardOptions::default() };
    let house = House::with(db, Plan { guard, ..Plan::default() }).await;
    let (busy, calm) = (Program::new(&house).await, Program::new(&house).await);
    let order = busy.order("mug").await;
    let mut limited = 0;
    let intent = uuid();
    let other = uuid();
    for _ in 0..5 {
        let reply = busy.get(&format!("/api/v1/intents/{other}")).await;
        limited += usize::from(reply.status == 429);
    }
    assert!(limited >= 1);
    let refused = busy.pay(&order, &intent, &good_payment(&order)).await;
    let problem = refused.assert_problem(429, "rate-limited");
    assert_eq!((&problem["outcome"], &problem["safe_to_retry"]), (&json!("known"), &json!(true)));
    assert!((1..=3).contains(&refused.header("retry-after").unwrap().parse::<u32>().unwrap()));
    assert_eq!(house.count("select count(*) from intents").await, 0, "nothing was begun");
    house.assert_not_charged(&as_browser(&house, &order).await).await;

    assert_eq!(calm.get(&format!("/api/v1/intents/{other}")).await.status, 404, "others are not held back");
    until("the pause is over", || async { busy.pay(&order, &intent, &good_payment(&order)).await.status == 200 }).await;
    house.assert_charged_once(&as_browser(&house, &order).await).await;
    house.assert_books_balance().await;
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn an_address_that_posts_too_often_is_told_so_and_keeps_its_intent(db: PgPool) {
    let guard = GuardOptions { address: rate(1, 4), ..GuardOptions::default() };
    let house = House::with(db, Plan { guard, ..Plan::default() }).await;
    let order = house.order("mug").await;
    let intent = uuid();
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let form = [
        ("intent", intent.clone()),
        ("session", session),
        ("amount", order.amount.to_string()),
        ("currency", order.currency.clone()),
    ];
    // Two posts made the order; these use up the rest.
    for _ in 0..5 {
        house.outcome(&order, None).await;
    }
    let refused = house.pay(&order, &intent, GOOD_CARD).await;
    refused.assert_refused(429, "rate_limited");
    assert!(refused.retry_after.is_some());
    let page = house.post_pay_form(&order, &form).await;
    assert_eq!(page.status().as_u16(), 429);
    assert!(page.headers().contains_key("retry-after"));
    let html = page.text().await.unwrap();
    assert!(html.contains("data-state=\"busy\"") && html.contains("Too many tries"), "{html}");
    assert_eq!(house.count("select count(*) from intents").await, 0, "nothing was begun");

    // Looking is free.
    for _ in 0..10 {
        house.open_checkout(&order.token).await;
    }
    until("the pause is over", || async { house.pay(&order, &intent, GOOD_CARD).await.status.is_success() }).await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Guesses are counted by address before the database is asked; a program that is known goes on.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn guesses_of_keys_are_bounded_and_hold_back_nobody_who_is_known(db: PgPool) {
    let guard = GuardOptions { address: rate(1, 3), ..GuardOptions::default() };
    let house = House::with(db, Plan { guard, ..Plan::default() }).await;
    let program = Program::new(&house).await;
    let path = format!("/api/v1/intents/{}", uuid());
    assert_eq!(program.get(&path).await.status, 404);
    let stranger = Program { key: format!("payonce_{}", "a".repeat(32)), house: &house, id: program.id };
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(stranger.get(&path).await.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 401).count() <= 4, "{statuses:?}");
    assert_eq!(program.get(&path).await.status, 404, "who was known a moment ago is not asked again");
}

/// Behind a proxy each client has a bucket of its own; without one, nobody gets another by saying so.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_forwarded_address_counts_only_behind_a_trusted_proxy(db: PgPool) {
    for (proxies, separate) in [(Proxies::Count(1), true), (Proxies::None, false)] {
        let guard = GuardOptions { address: rate(1, 2), proxies, ..GuardOptions::default() };
        let house = House::with(db.clone(), Plan { guard, ..Plan::default() }).await;
        let mut statuses = Vec::new();
        for client in 0..6 {
            let body = json!({"order": "x", "intent": null});
            let request = house.http.post(format!("{}/rpc/outcome", house.url())).json(&body);
            let request = request.header("x-forwarded-for", format!("1.1.1.1, 198.51.100.{client}"));
            statuses.push(Answer::of(request.send().await.unwrap()).await.status.as_u16());
        }
        assert_eq!(statuses.contains(&429), !separate, "{statuses:?}");
    }
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_description_of_the_limit_is_in_every_answer_that_it_gives(db: PgPool) {
    let guard = GuardOptions { address: rate(1, 1), ..GuardOptions::default() };
    let house = House::with(db, Plan { guard, ..Plan::default() }).await;
    let url = format!("{}/api/v1/orders/x", house.url());
    let mut last = None;
    for _ in 0..3 {
        last = Some(Reply::of(house.http.get(&url).send().await.unwrap()).await);
    }
    let limited = last.unwrap();
    limited.assert_problem(429, "rate-limited");
    assert!(limited.header("retry-after").is_some());
}
