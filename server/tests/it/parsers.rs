//! Everything that comes from outside is read or refused: nothing panics, nothing is guessed, and both sides of the wire agree.

use payments::ids::Email;
use proptest::{prelude::*, strategy::ValueTree as _, string::string_regex, test_runner::TestRunner};
use reqwest::header;
use sqlx::PgPool;

use crate::house::{GOOD_CARD, House, uuid};

/// Different bodies for each door.
const BODIES: usize = 100;

proptest! {
    /// What the page takes for an address the server takes too: a customer is not told "looks good" and then "no".
    #[test]
    fn an_address_that_the_page_takes_the_domain_takes(
        typed in prop_oneof![
            any::<String>(),
            "[a-zé.+]{1,9}@[a-zä.-]{1,9}\\.[a-z]{2}",
            "[é𝔞a]{1,244}@example\\.org",
        ],
    ) {
        if let Ok(address) = app::fields::email(&typed) {
            prop_assert!(Email::parse(&address).is_ok(), "{address:?}, {} bytes", address.len());
        }
    }
}

/// What may come as a body: any bytes, and forms or JSON with the right names and anything in them.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let names = "(sku|change|quantity|cart|currency|intent|replaces|session|amount)";
    let values = "(add|set|mug|EUR|-1|99999999999999999999|%00|%ff|[ -~]{0,8}|7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11)";
    let form = format!("({names}={values}&?){{0,8}}");
    let json = r#"\{"(pay|order)":(\{("[a-z_]{1,9}":("[ -!#-\[\]-~]{0,9}"|-?[0-9]{1,20}|null|\[\]),?){0,7}\}|null|"[a-zA-Z0-9]{0,22}")\}?"#;
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        string_regex(&form).unwrap().prop_map(String::into_bytes),
        json.prop_map(String::into_bytes),
    ]
}

/// Whatever is sent to whatever door as whatever type, it is answered politely, reserves nothing and charges nothing.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn any_body_at_any_door_is_answered_and_reserves_nothing(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let pay = format!("/checkout/{}/pay", order.token);
    let mut runner = TestRunner::deterministic();
    for door in ["/cart", "/checkout", &pay, "/rpc/pay", "/rpc/outcome"] {
        for kind in ["application/x-www-form-urlencoded", "application/json"] {
            for _ in 0..BODIES {
                let body = bodies().new_tree(&mut runner).unwrap().current();
                let sent = house.http.post(format!("{}{door}", house.url())).header(header::CONTENT_TYPE, kind);
                let answer = sent.body(body.clone()).send().await.unwrap();
                let shown = String::from_utf8_lossy(&body);
                assert!(answer.status().as_u16() < 500, "{} for {shown:?} at {door} as {kind}", answer.status());
            }
        }
    }
    assert_eq!(house.count("select count(*) from intents").await, 0);
    house.assert_not_charged(&order).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    house.assert_books_balance().await;
}
