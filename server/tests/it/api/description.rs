//! The description says what the server does.

use server::web::api::{self, Kind};
use sqlx::PgPool;

use crate::house::House;

#[test]
fn the_committed_description_is_the_servers() {
    assert!(
        include_str!("../../../../docs/openapi.json") == api::document(),
        "docs/openapi.json is stale; renew it: cargo run -p server --bin payonce -- openapi > docs/openapi.json"
    );
}

#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn the_description_is_served_to_everybody(db: PgPool) {
    let house = House::new(db).await;
    let served = house.http.get(format!("{}/api/openapi.json", house.url())).send().await.unwrap();
    assert_eq!(served.status().as_u16(), 200);
    assert_eq!(served.headers()["content-type"], "application/json");
    assert_eq!(served.text().await.unwrap(), api::document());
}

/// Whoever acts on a type or a status must not be surprised by the next version.
#[test]
fn types_and_their_advice_stay() {
    let all = [
        (Kind::MalformedRequest, "malformed-request 400 Known false"),
        (Kind::KeyMissing, "key-missing 400 Known false"),
        (Kind::KeyMalformed, "key-malformed 400 Known false"),
        (Kind::Unauthorized, "unauthorized 401 Known false"),
        (Kind::NotFound, "not-found 404 Known false"),
        (Kind::MethodNotAllowed, "method-not-allowed 405 Known false"),
        (Kind::InProgress, "in-progress 409 Unknown true"),
        (Kind::OrderTaken, "order-taken 409 Known false"),
        (Kind::PriceChanged, "price-changed 409 Known false"),
        (Kind::OutOfStock, "out-of-stock 409 Known true"),
        (Kind::NotPaid, "not-paid 409 Known false"),
        (Kind::PaymentUnresolved, "payment-unresolved 409 Known true"),
        (Kind::ExceedsRemaining, "exceeds-remaining 409 Known false"),
        (Kind::IntentAmbiguous, "intent-ambiguous 409 Known false"),
        (Kind::KeyPurged, "key-purged 410 Known false"),
        (Kind::OrderClosed, "order-closed 410 Known false"),
        (Kind::TooLarge, "too-large 413 Known false"),
        (Kind::UnsupportedMediaType, "unsupported-media-type 415 Known false"),
        (Kind::OrderRefused, "order-refused 422 Known false"),
        (Kind::KeyReused, "key-reused 422 Known false"),
        (Kind::InvalidField, "invalid-field 422 Known false"),
        (Kind::ReplacesUnfinished, "replaces-unfinished 422 Known false"),
        (Kind::RateLimited, "rate-limited 429 Known true"),
        (Kind::Internal, "internal 500 Unknown true"),
        (Kind::NotSent, "not-sent 503 Known true"),
        (Kind::Unavailable, "unavailable 503 Unknown true"),
    ];
    for (kind, facts) in all {
        let name = serde_json::to_value(kind).unwrap();
        let name = name.as_str().unwrap().strip_prefix("urn:payonce:problem:").unwrap().to_owned();
        let (status, _, outcome, safe) = kind.facts();
        assert_eq!(format!("{name} {status} {outcome:?} {safe}"), facts);
    }
}
