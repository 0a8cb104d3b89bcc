//! A replica is killed at each step of a refund, and the program asks again, at the replica that lives, or does not. What the provider
//! gave back is right each time.

use std::{sync::Arc, time::Duration};

use chaos::{
    books,
    customer::{GOOD_CARD, Payment},
    gate::{Fate, Gate, Message, Moment},
    process,
    shop::Plan,
    until,
    world::{Ground, Replica, World},
};
use futures::{StreamExt as _, stream};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{AFTER_LEASE_MAX, new_payment};

/// What is given back of each payment.
const PART: i64 = 300;
/// How long a program may be told to come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the provider does with the refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    GivesBack,
    /// The bank takes its time.
    TakesItsTime,
    /// What is disputed is not given back.
    Refuses,
}

impl Provider {
    fn card(self) -> &'static str {
        match self {
            Self::GivesBack | Self::Refuses => GOOD_CARD,
            Self::TakesItsTime => "pm_card_pendingRefund",
        }
    }

    /// State, whether the provider's refund is known, and what was given back.
    fn end(self) -> (&'static str, bool, i64) {
        match self {
            Self::GivesBack => ("succeeded", true, PART),
            Self::TakesItsTime => ("unknown", true, PART),
            Self::Refuses => ("failed", false, 0),
        }
    }

    /// The statement that writes what the provider said.
    fn settled_by(self) -> Message {
        match self {
            Self::GivesBack => Message::Succeed,
            Self::TakesItsTime => Message::OtherStatement,
            Self::Refuses => Message::Fail,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Kill {
    provider: Provider,
    message: Message,
    moment: Moment,
    fate: Fate,
    /// Whether the program sends the same request to the other replica.
    again: bool,
}

impl Kill {
    /// Whether the refund was never reserved, and nobody asks for it again.
    fn leaves_nothing(self) -> bool {
        (self.message, self.moment, self.fate) == (Message::Reserve, Moment::Sent, Fate::Lose) && !self.again
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rf4_a_kill_at_each_step_of_a_refund_gives_back_once() {
    use Fate::{Deliver, Lose};
    use Moment::{Answered, Sent};

    let ground = Ground::new().await.unwrap();
    let mut runs = Vec::new();
    for provider in [Provider::GivesBack, Provider::TakesItsTime, Provider::Refuses] {
        let mut steps = vec![Message::Reserve, Message::OtherCall];
        // What writes "the bank takes its time" is a statement without a name here.
        steps.extend(Some(provider.settled_by()).filter(|message| *message != Message::OtherStatement));
        for message in steps {
            for (moment, fate) in [(Sent, Lose), (Sent, Deliver), (Answered, Lose)] {
                for again in [false, true] {
                    runs.push(kill_at(Arc::clone(&ground), Kill { provider, message, moment, fate, again }));
                }
            }
        }
    }
    stream::iter(runs).buffer_unordered(6).collect::<Vec<()>>().await;
}

fn gate(replica: &Replica, message: Message) -> &Gate {
    if message == Message::OtherCall { replica.calls() } else { replica.statements() }
}

fn ask(world: &World, replica: &Replica, payment: &Payment, api_key: &str, key: Uuid) -> RequestBuilder {
    let url = format!("{}/api/v1/orders/{}/refunds", replica.shop.url(), payment.order.id);
    let post = world.customer.http().post(url).bearer_auth(api_key).header("Idempotency-Key", key.to_string());
    post.json(&json!({"amount": PART}))
}

async fn kill_at(ground: Arc<Ground>, kill: Kill) {
    let plan = Plan { pay_wait: Duration::from_secs(5), ..Plan::default() };
    let mut world = World::new(&ground, 2, &plan).await.unwrap();
    let url = world.database.url_through(world.other().postgres.port).unwrap();
    let api_key = process::run(&["api-key", "create", "a program"], ("DATABASE_URL", &url)).await.unwrap();
    let api_key = api_key.trim();
    let payment = new_payment(&world, kill.provider.card()).await;
    assert_eq!(payment.pay(world.other().shop.address()).await.unwrap().status, 200);
    let order = payment.order.id.to_string();
    if kill.provider == Provider::Refuses {
        let charge = ground.sandbox.charges(&order).await.unwrap()[0]["id"].clone();
        ground.sandbox.control("disputes", &json!({"charge": charge})).await.unwrap();
    }

    let key = Uuid::new_v4();
    let mut held = gate(world.victim(), kill.message).hold(kill.message, kill.moment);
    let asked = ask(&world, world.victim(), &payment, api_key, key);
    #[expect(clippy::disallowed_methods, reason = "its end is awaited, and tells of a panic")]
    let asking = tokio::spawn(asked.send());
    if let Err(error) = held.reached().await {
        let answer = asking.await.unwrap().unwrap().text().await.unwrap();
        unreachable!("{kill:?}: {error}: {answer}");
    }
    world.replicas[0].shop.kill().await.unwrap();
    held.let_go(kill.fate);
    let cut_off = asking.await.unwrap();
    assert!(cut_off.is_err(), "{kill:?}: {cut_off:?}");

    let db = &world.database.pool;
    let (state, is_known, given_back) = kill.provider.end();
    if kill.leaves_nothing() {
        let reserved: i64 =
            sqlx::query_scalar("select count(*) from intents where id = $1").bind(key).fetch_one(db).await.unwrap();
        assert_eq!(reserved, 0, "{kill:?}");
        assert_eq!(refunded(&ground, &order).await, 0, "{kill:?}: nothing is sent before it is reserved");
        return;
    }
    let first = if kill.again { Some(asked_until_told(&world, &payment, api_key, key).await) } else { None };
    let ended = || async {
        let sql = "select state, provider_refund is not null from intents where id = $1";
        let row: Option<(String, bool)> = sqlx::query_as(sql).bind(key).fetch_optional(db).await?;
        Ok(row == Some((state.to_owned(), is_known)))
    };
    let took = until("the refund's end", plan.lease + AFTER_LEASE_MAX, ended).await;
    assert!(took.is_ok(), "{kill:?}: {took:?}");
    assert_eq!(refunded(&ground, &order).await, given_back, "{kill:?}");
    let sum: i64 = sqlx::query_scalar("select refund_reserved_minor from orders where id = $1")
        .bind(payment.order.id)
        .fetch_one(db)
        .await
        .unwrap();
    assert_eq!(sum, given_back, "{kill:?}");

    // The program comes once more, and hears the same as before.
    let told = asked_until_told(&world, &payment, api_key, key).await;
    if let Some(first) = first.filter(|first| first.0 != 202) {
        assert_eq!(first, told, "{kill:?}");
    }
    assert_eq!(refunded(&ground, &order).await, given_back, "{kill:?}");
    if state != "unknown" {
        books::check(db, &ground.sandbox, &[payment], &[]).await.unwrap();
    }
}

/// Asks the replica that lives until it tells something: status and body.
async fn asked_until_told(world: &World, payment: &Payment, api_key: &str, key: Uuid) -> (u16, Value) {
    let began = tokio::time::Instant::now();
    loop {
        let answer = ask(world, world.other(), payment, api_key, key).send().await.unwrap();
        let status = answer.status().as_u16();
        if matches!(status, 200 | 202 | 402) {
            return (status, answer.json().await.unwrap());
        }
        assert!(matches!(status, 409 | 503) && began.elapsed() < PATIENCE, "{status}");
    }
}

/// What the provider gave back, or is giving back, of an order's charge.
async fn refunded(ground: &Ground, order: &str) -> i64 {
    let charges = ground.sandbox.charges(order).await.unwrap();
    assert_eq!(charges.len(), 1);
    charges[0]["refunded"].as_i64().unwrap()
}
