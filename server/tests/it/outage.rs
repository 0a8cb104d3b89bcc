//! The provider is away: customers hear so at once, nothing is charged, and they pay when it is back.

use std::{sync::Arc, time::Duration};

use payments::provider::{
    ProbeOutcome, Provider, ProviderPaymentIntentId, UnknownReason,
    breaker::{Breaker, BreakerLimits},
};
use reqwest::StatusCode;
use serde_json::json;
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, Plan, until, uuid};

const FAULTS: u32 = 3;

/// Long enough for a slow machine to ask within it.
const PAUSE: Duration = Duration::from_secs(5);

async fn behind_a_breaker(db: PgPool) -> House {
    let around = |stripe| -> Arc<dyn Provider> {
        let limits = BreakerLimits { faults: FAULTS, pause: PAUSE, ..BreakerLimits::for_lease(Duration::from_mins(1)) };
        Arc::new(Breaker::new(stripe, limits))
    };
    House::with(db, Plan { around, ..Plan::default() }).await
}

/// The provider breaks down. Whoever presses Pay then is told to try again shortly, on both doors, and the same intent pays once the
/// pause is over.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_g7_a_provider_that_is_down_means_503_and_no_charge_and_then_the_same_intent_pays(db: PgPool) {
    let house = behind_a_breaker(db).await;
    let order = house.order("lamp").await;
    house.sandbox.fault(&house.http, json!({"fault": {"kind": "error_500"}, "next": FAULTS})).await;
    let nobody = ProviderPaymentIntentId::parse("pi_nobody").unwrap();
    for _ in 0..FAULTS {
        let seen = house.replicas[0].ctx.provider.probe(&nobody).await;
        assert_eq!(seen, ProbeOutcome::CannotTell(UnknownReason::ServerFault));
    }

    let intent = uuid();
    let turned_away = house.pay(&order, &intent, GOOD_CARD).await;
    turned_away.assert_refused(503, "not_sent");
    assert_eq!(turned_away.retry_after.as_deref(), Some("2"));
    let session = house.card_session(&order, &intent, "4242424242424242").await;
    let fields = [
        ("intent", intent.clone()),
        ("session", session),
        ("amount", order.amount.to_string()),
        ("currency", order.currency.clone()),
    ];
    assert_eq!(house.post_pay_form(&order, &fields).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    house.assert_not_charged(&order).await;
    assert_eq!(house.sandbox.confirms(&house.http).await, 0);
    assert_eq!(house.count("select count(*) from intents").await, 0, "the reservation is released");

    until("the same intent pays", || async { house.pay(&order, &intent, GOOD_CARD).await.status == StatusCode::OK })
        .await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    assert_eq!(house.sandbox.confirms(&house.http).await, 1);
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}
