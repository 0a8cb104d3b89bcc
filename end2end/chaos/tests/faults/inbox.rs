//! A replica is killed between the receipt of an event and its effect. The event alone can tell the outcome here: the answer of
//! the confirm is lost, and the provider does not say how the payment intent stands.

use std::{sync::Arc, time::Duration};

use chaos::{
    books,
    customer::{GOOD_CARD, Payment},
    events,
    gate::{Fate, Message, Moment},
    shop::Plan,
    until,
    world::{Ground, World},
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{misbehave_once, new_payment, repeat_and_check};

/// How long an event that was kept and not handled rests until it is taken up, and how long that may take.
const SWEEP_PATIENCE: Duration = Duration::from_secs(45);
/// How long an effect may take that a second delivery brings.
const PATIENCE: Duration = Duration::from_secs(10);

/// What brings the effect, after the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The provider got no 2xx, and delivers again; to the other replica.
    DeliveredAgain,
    /// Nobody delivers again: the replica that lives takes it up.
    TakenUp,
    /// The event never reached the database, or its effect did: nothing is left to do but for the second delivery to be harmless.
    DeliveredAgainForNothing,
}

#[derive(Clone, Copy, Debug)]
struct Kill {
    message: Message,
    moment: Moment,
    fate: Fate,
    then: Then,
}

#[tokio::test(flavor = "multi_thread")]
async fn w8_a_kill_between_an_event_and_its_effect_loses_neither() {
    use Fate::{Deliver, Lose};
    use Message::{Keep, Succeed};
    use Moment::{Answered, Sent};
    use Then::{DeliveredAgain, DeliveredAgainForNothing, TakenUp};

    let ground = Ground::new().await.unwrap();
    // Nor do its lists tell anything, which the shop reads from time to time.
    for path in ["events", "list"] {
        let silent = json!({"match": {"path": path}, "fault": {"kind": "error_500"}});
        ground.sandbox.fault(&silent).await.unwrap();
    }
    let kills = [
        (Keep, Sent, Lose, DeliveredAgain),
        (Keep, Answered, Lose, DeliveredAgain),
        (Keep, Answered, Lose, TakenUp),
        (Succeed, Sent, Lose, DeliveredAgain),
        (Succeed, Sent, Lose, TakenUp),
        (Succeed, Sent, Deliver, DeliveredAgainForNothing),
        (Succeed, Answered, Lose, DeliveredAgainForNothing),
    ];
    let runs = kills
        .map(|(message, moment, fate, then)| kill_between(Arc::clone(&ground), Kill { message, moment, fate, then }));
    stream::iter(runs.map(Box::pin)).buffer_unordered(4).collect::<Vec<()>>().await;
}

/// Charged at the provider, and unknown to us.
async fn charged_in_silence(ground: &Ground, world: &World) -> (Payment, Value) {
    let payment = new_payment(world, GOOD_CARD).await;
    misbehave_once(ground, &payment, "charge_then_drop").await;
    let silent = json!({"match": {"path": "retrieve", "order": payment.order.id}, "fault": {"kind": "error_500"}});
    ground.sandbox.fault(&silent).await.unwrap();
    let is_unknown = || async {
        let answer = payment.pay(world.victim().shop.address()).await?;
        Ok(answer.json()?["detail"] == "unknown")
    };
    until("the outcome is unknown", PATIENCE, is_unknown).await.unwrap();

    let sql = "select provider_payment_intent from intents where id = $1";
    let payment_intent: String =
        sqlx::query_scalar(sql).bind(payment.intent).fetch_one(&world.database.pool).await.unwrap();
    let charges = ground.sandbox.charges(&payment.order.id.to_string()).await.unwrap();
    let [charge] = charges.as_slice() else { unreachable!("one charge: {charges:?}") };
    let charge = charge["id"].as_str().unwrap();
    let event = events::charged(&payment_intent, charge, payment.order.amount, &payment.order.currency);
    (payment, event)
}

async fn kill_between(ground: Arc<Ground>, kill: Kill) {
    let more = vec![("PAYONCE_WEBHOOK_SECRETS".to_owned(), events::SECRET.to_owned())];
    let plan = Plan { pay_wait: Duration::from_millis(300), more, ..Plan::default() };
    let mut world = World::new(&ground, 2, &plan).await.unwrap();
    let (payment, event) = charged_in_silence(&ground, &world).await;

    let mut held = world.victim().statements().hold(kill.message, kill.moment);
    let delivery = events::delivery(&world.customer, &world.victim().shop.url(), &event).unwrap();
    let delivered = tokio::join!(delivery.send(), async {
        held.reached().await.unwrap();
        world.replicas[0].shop.kill().await.unwrap();
        held.let_go(kill.fate);
    });
    assert!(delivered.0.is_err(), "{kill:?}: who was killed thanked nobody: {delivered:?}");

    let db = &world.database.pool;
    let patience = match kill.then {
        Then::TakenUp => SWEEP_PATIENCE,
        Then::DeliveredAgain | Then::DeliveredAgainForNothing => PATIENCE,
    };
    if kill.then == Then::DeliveredAgain {
        assert!(!books::is_final(db, &payment).await.unwrap(), "{kill:?}: the effect came before its time");
        assert_eq!(deliver_again(&world, &event).await, "handled\n", "{kill:?}");
    }
    until("the effect", patience, || books::is_final(db, &payment)).await.unwrap();
    assert_eq!(deliver_again(&world, &event).await, "known\n", "{kill:?}");

    let sql =
        "select count(*) filter (where effect = 'applied' and handled_at is not null), count(*) from inbox_events";
    let (applied, all): (i64, i64) = sqlx::query_as(sql).fetch_one(db).await.unwrap();
    assert_eq!((applied, all), (1, 1), "{kill:?}");
    world.replicas[0].shop.restart().await.unwrap();
    repeat_and_check(&world, &[payment], Vec::new(), "succeeded", 1).await;
}

async fn deliver_again(world: &World, event: &Value) -> String {
    let delivery = events::delivery(&world.customer, &world.other().shop.url(), event).unwrap();
    let answer = world.customer.send(delivery).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}
