//! No card number and no security code is kept or shown, whatever way a card came and whatever became of it.

use crate::harness::{PUBLISHABLE, start};

#[tokio::test]
async fn card_numbers_and_security_codes_are_nowhere() {
    let sandbox = start("secrecy").await;
    // A code that cannot turn up by chance in an id, a time or an amount of this test.
    let (number, spaced, code) = ("378282246310005", "3782 822463 10005", "7391");
    let api = [
        ("type", "card"),
        ("card[number]", number),
        ("card[exp_month]", "12"),
        ("card[exp_year]", "34"),
        ("card[cvc]", code),
    ];
    let sent = sandbox.client.post(sandbox.url("/v1/payment_methods")).bearer_auth(PUBLISHABLE);
    let response = sent.header("idempotency-key", "card-key").form(&api).send().await.unwrap();
    let method: serde_json::Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let bad = [api[0], ("card[number]", "378282246310006"), api[2], api[3], api[4]];
    sandbox.post("/v1/payment_methods", "bad-key", &bad).await;
    for cvc in [code, "1"] {
        let form = [
            ("key", PUBLISHABLE),
            ("return_url", "https://shop.example/review"),
            ("retry_url", "https://shop.example/checkout"),
            ("cardnumber", spaced),
            ("exp", "12/34"),
            ("cvc", cvc),
        ];
        assert_eq!(sandbox.post("/hosted/cards", "hosted-key", &form).await.status, 303);
    }
    // Someone puts the card into an address.
    sandbox.get(&format!("/v1/charges?number={number}&cvc={code}")).await;
    let intent = sandbox.intent("order-1").await;
    sandbox.confirm(&intent, "pay", method["id"].as_str().unwrap()).await;
    let declining = sandbox.method("4000000000000002").await;
    let other = sandbox.intent("order-2").await;
    sandbox.confirm(&other, "pay-2", &declining).await;

    let mut kept = vec![
        std::fs::read_to_string(sandbox.folder.join("journal.jsonl")).unwrap(),
        sandbox.ledger().await.to_string(),
        sandbox.get("/_sandbox/calls").await.text,
        sandbox.get("/v1/charges").await.text,
        sandbox.get(&format!("/v1/payment_intents/{intent}")).await.text,
    ];
    for text in &mut kept {
        // A client secret and an id are random; the code must not be found in them by chance.
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| word.len() < 20);
        let words: Vec<&str> = words.collect();
        assert!(!words.contains(&code), "a security code in {text}");
        for number in [number, "378282246310006", "4000000000000002", "3782822463"] {
            assert!(!text.contains(number), "a card number in {text}");
        }
    }
    sandbox.end().await;
}
