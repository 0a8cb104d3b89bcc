//! Money that moved without the shop, few and very many.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::json;

use crate::harness::{Got, Running, config, folder, start, start_with};

#[tokio::test]
async fn a_payment_made_elsewhere_is_listed_by_its_time_and_told() {
    let sandbox = start("elsewhere").await;
    let first = sandbox.intent("order-1").await;
    sandbox.confirm(&first, "pay", "pm_card_visa").await;
    let order = json!({
        "amount": 4990, "currency": "eur", "metadata": {"order": "order-1"}, "created": 1_700_000_000,
    });
    let made = sandbox.control("/_sandbox/charges", order).await.json();
    assert_eq!(
        (&made["payment_intent"]["status"], &made["charge"]["created"]),
        (&json!("succeeded"), &json!(1_700_000_000))
    );
    // Two charges of one order, which only a look at the provider finds.
    let ledger = sandbox.get("/_sandbox/ledger?order=order-1").await.json();
    assert_eq!(ledger["charges"].as_array().unwrap().len(), 2);
    // It is older, though it came later.
    let listed = sandbox.get("/v1/charges").await.json();
    assert_eq!(listed["data"][1]["id"], made["charge"]["id"]);
    assert_eq!(sandbox.get("/v1/charges?created[lte]=1700000000").await.json()["data"].as_array().unwrap().len(), 1);
    assert_eq!(
        sandbox.event_kinds().await[3..],
        ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]
    );
    let id = made["payment_intent"]["id"].as_str().unwrap();
    assert_eq!(sandbox.post("/v1/refunds", "r", &[("payment_intent", id)]).await.json()["amount"], 4990);

    // What happens in silence is found by looking only.
    let told = sandbox.event_kinds().await.len();
    let silent = json!({"amount": 500, "currency": "eur", "silent": true});
    let made = sandbox.control("/_sandbox/charges", silent).await.json();
    let refund = json!({"charge": made["charge"]["id"], "silent": true});
    sandbox.control("/_sandbox/refunds", refund).await;
    assert_eq!(sandbox.event_kinds().await.len(), told);
    let found = sandbox.get(&format!("/v1/charges/{}", made["charge"]["id"].as_str().unwrap())).await.json();
    assert_eq!((&found["status"], &found["refunded"]), (&json!("succeeded"), &json!(true)));

    let declined = json!({"amount": 4990, "currency": "eur", "payment_method": "pm_card_chargeDeclined"});
    let made = sandbox.control("/_sandbox/charges", declined).await.json();
    assert_eq!(
        (&made["payment_intent"]["status"], &made["charge"]["status"]),
        (&json!("requires_payment_method"), &json!("failed"))
    );
    sandbox.end().await;
}

fn bulk(count: u64, prefix: &str) -> serde_json::Value {
    json!({
        "count": count, "created": 1_700_000_000, "per_second": 100, "amount": 1000, "amounts": 50, "currency": "eur",
        "prefix": prefix, "metadata": {"order": "00000000-0000-4000-8000-{hex}", "n": "{n}"},
    })
}

/// Pages through all charges, oldest page last; their ids, and what they add up to.
async fn all(sandbox: &Running, query: &str) -> (Vec<String>, i64) {
    let (mut ids, mut sum): (Vec<String>, i64) = (Vec::new(), 0);
    loop {
        let after = ids.last().map(|id| format!("&starting_after={id}")).unwrap_or_default();
        let page = sandbox.get(&format!("/v1/charges?limit=100{query}{after}")).await.json();
        for charge in page["data"].as_array().unwrap() {
            ids.push(charge["id"].as_str().unwrap().to_owned());
            sum += charge["amount"].as_i64().unwrap();
        }
        if page["has_more"] == false {
            return (ids, sum);
        }
    }
}

#[tokio::test]
async fn a_bulk_is_one_line_and_pages_like_other_charges() {
    let folder = folder("bulk");
    let sandbox = start_with(config(&folder)).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", "pm_card_visa").await;
    let made = sandbox.control("/_sandbox/charges/bulk", bulk(1000, "aaaaaaaaaaaa")).await.json();
    assert_eq!(
        (&made["first"]["payment_intent"], &made["last"]["charge"]),
        (&json!("pi_aaaaaaaaaaaa000000000000"), &json!("ch_aaaaaaaaaaaa000000000999"))
    );
    let (ids, sum) = all(&sandbox, "").await;
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (1001, 1001));
    // Fifty amounts from 10.00 on, twenty times each, and the one that was paid here.
    assert_eq!(sum, 20 * (1000..1050).sum::<i64>() + 4990);
    assert_eq!(ids[1], "ch_aaaaaaaaaaaa000000000999");
    assert_eq!(all(&sandbox, "&created[gte]=1700000002&created[lt]=1700000004").await.0.len(), 200);

    // One of them is as good as any other: it can be looked at, refunded and disputed.
    let one = sandbox.get("/v1/payment_intents/pi_aaaaaaaaaaaa000000000017?expand[]=latest_charge").await.json();
    assert_eq!(
        (&one["metadata"]["order"], &one["metadata"]["n"]),
        (&json!("00000000-0000-4000-8000-000000000011"), &json!("17"))
    );
    assert_eq!(one["latest_charge"]["amount"], 1017);
    let id = one["id"].as_str().unwrap();
    assert_eq!(sandbox.post("/v1/refunds", "r", &[("payment_intent", id)]).await.json()["amount"], 1017);
    assert_eq!(all(&sandbox, "").await.0, ids);
    let charge = sandbox.get(&format!("/v1/charges?payment_intent={id}")).await.json();
    assert_eq!((charge["data"].as_array().unwrap().len(), &charge["data"][0]["refunded"]), (1, &json!(true)));
    let cancel = sandbox.post("/v1/payment_intents/pi_aaaaaaaaaaaa000000000018/cancel", "", &[]).await;
    assert_eq!(cancel.error("code").1, "payment_intent_unexpected_state");

    let folder = sandbox.stop().await;
    assert_eq!(std::fs::read_to_string(folder.join("journal.jsonl")).unwrap().lines().count(), 4);
    let sandbox = start_with(config(&folder)).await;
    assert_eq!(all(&sandbox, "").await.0, ids);
    assert_eq!(sandbox.get("/v1/charges/ch_aaaaaaaaaaaa000000000017").await.json()["amount_refunded"], 1017);
    sandbox.end().await;
}

#[tokio::test]
async fn bulks_of_one_time_are_listed_as_one() {
    let sandbox = start("bulks").await;
    sandbox.control("/_sandbox/charges/bulk", bulk(250, "aaaaaaaaaaaa")).await;
    sandbox.control("/_sandbox/charges/bulk", bulk(250, "bbbbbbbbbbbb")).await;
    let (ids, _) = all(&sandbox, "").await;
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 500);
    let newer = sandbox.get(&format!("/v1/charges?limit=100&ending_before={}", ids[100])).await.json();
    let newer: Vec<&str> = newer["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(newer, ids[..100]);
    for bad in [bulk(0, "cccccccccccc"), bulk(1, "aaaaaaaaaaaa"), bulk(1, "short"), bulk(10_000_001, "cccccccccccc")] {
        let refused = sandbox.client.post(sandbox.url("/_sandbox/charges/bulk")).json(&bad).send().await.unwrap();
        assert_eq!(Got::from(refused).await.status, 400, "{bad}");
    }
    sandbox.end().await;
}

/// A page in the middle of a million takes no longer than the first: each costs what it shows, not what is before it.
#[tokio::test]
async fn a_page_among_a_million_costs_no_more_than_the_first() {
    let sandbox = start("million").await;
    sandbox.control("/_sandbox/charges/bulk", bulk(1_000_000, "aaaaaaaaaaaa")).await;
    let mut slowest = std::time::Duration::ZERO;
    for place in [999_999_u64, 750_000, 500_000, 250_000, 101] {
        let started = Instant::now();
        let page =
            sandbox.get(&format!("/v1/charges?limit=100&starting_after=ch_aaaaaaaaaaaa{place:012}")).await.json();
        slowest = slowest.max(started.elapsed());
        assert_eq!(page["data"][0]["id"], format!("ch_aaaaaaaaaaaa{:012}", place - 1));
        assert_eq!(page["data"].as_array().unwrap().len(), 100);
    }
    // Looking at a million charges one by one takes seconds in a build for tests.
    assert!(slowest.as_millis() < 1000, "{slowest:?}");
    sandbox.end().await;
}
