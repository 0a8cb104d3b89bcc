//! The test cards: their numbers, their tokens, and what they do when they are charged, as the provider documents them.
//! Only these cards exist here; a real card typed by mistake is refused at the door and nothing of it is kept.

use crate::records::{CardError, Conduct, Method, RefundConduct};

/// One row of the table.
pub struct TestCard {
    pub number: &'static str,
    /// Names under which `confirm` takes the card without a number, after `pm_card_`.
    pub tokens: &'static [&'static str],
    pub bank_step: bool,
    pub decline: Option<&'static str>,
    pub refund: RefundConduct,
    /// The reason of a dispute that comes with the charge.
    pub dispute: Option<&'static str>,
    /// For the page.
    pub does: &'static str,
}

const fn pays(number: &'static str, tokens: &'static [&'static str], does: &'static str) -> TestCard {
    TestCard { number, tokens, bank_step: false, decline: None, refund: RefundConduct::Succeeds, dispute: None, does }
}

const fn refunds(
    number: &'static str,
    tokens: &'static [&'static str],
    refund: RefundConduct,
    does: &'static str,
) -> TestCard {
    TestCard { refund, ..pays(number, tokens, does) }
}

const fn disputes(
    number: &'static str,
    tokens: &'static [&'static str],
    reason: &'static str,
    does: &'static str,
) -> TestCard {
    TestCard { dispute: Some(reason), ..pays(number, tokens, does) }
}

const fn declines(
    number: &'static str,
    tokens: &'static [&'static str],
    decline: &'static str,
    does: &'static str,
) -> TestCard {
    TestCard { decline: Some(decline), ..pays(number, tokens, does) }
}

const fn asks(
    number: &'static str,
    tokens: &'static [&'static str],
    decline: Option<&'static str>,
    does: &'static str,
) -> TestCard {
    TestCard { bank_step: true, decline, ..pays(number, tokens, does) }
}

/// Every card there is. A token that names `visa` works without it too.
pub const TEST_CARDS: &[TestCard] = &[
    pays("4242424242424242", &["visa", "us"], "Pays"),
    pays("4000056655665556", &["visa_debit"], "Pays (debit)"),
    pays("5555555555554444", &["mastercard"], "Pays"),
    pays("2223003122003222", &[], "Pays (2-series)"),
    pays("5200828282828210", &["mastercard_debit"], "Pays (debit)"),
    pays("5105105105105100", &["mastercard_prepaid"], "Pays (prepaid)"),
    pays("378282246310005", &["amex"], "Pays; its security code has four digits"),
    pays("371449635398431", &[], "Pays; its security code has four digits"),
    pays("6011111111111117", &["discover"], "Pays"),
    pays("3056930009020004", &["diners"], "Pays"),
    pays("36227206271667", &[], "Pays; 14 digits"),
    pays("3566002020360505", &["jcb"], "Pays"),
    pays("6200000000000005", &["unionpay"], "Pays"),
    pays("4000002760000016", &["de"], "Pays (Germany)"),
    pays("4000002500000003", &["fr"], "Pays (France)"),
    pays("4000003920000003", &["jp"], "Pays (Japan)"),
    pays("4000000000003055", &["threeDSecureOptional"], "Pays; the bank could ask but does not"),
    refunds("4000000000007726", &["pendingRefund"], RefundConduct::SucceedsLater, "Pays; a refund takes a while"),
    refunds("4000000000005126", &["refundFail"], RefundConduct::FailsLater, "Pays; a refund fails after a while"),
    disputes("4000000000000259", &["createDispute"], "fraudulent", "Pays, then the charge is disputed as fraud"),
    disputes(
        "4000000000002685",
        &["createDisputeProductNotReceived"],
        "product_not_received",
        "Pays, then the charge is disputed: nothing came",
    ),
    declines("4000000000000002", &["chargeDeclined", "visa_chargeDeclined"], "generic_decline", "Declined"),
    declines(
        "4000000000009995",
        &["visa_chargeDeclinedInsufficientFunds"],
        "insufficient_funds",
        "Declined: not enough money",
    ),
    declines("4000000000009987", &["visa_chargeDeclinedLostCard"], "lost_card", "Declined: reported lost"),
    declines("4000000000009979", &["visa_chargeDeclinedStolenCard"], "stolen_card", "Declined: reported stolen"),
    declines("4000000000000069", &["visa_chargeDeclinedExpiredCard"], "expired_card", "Declined: expired"),
    declines(
        "4000000000000127",
        &["visa_chargeDeclinedIncorrectCvc"],
        "incorrect_cvc",
        "Declined: wrong security code",
    ),
    declines(
        "4000000000000119",
        &["visa_chargeDeclinedProcessingError"],
        "processing_error",
        "Declined: the bank could not process it",
    ),
    declines(
        "4000000000006975",
        &["visa_chargeDeclinedVelocityLimitExceeded"],
        "card_velocity_exceeded",
        "Declined: used too often or for too much",
    ),
    declines("4000000000000341", &["chargeCustomerFail"], "generic_decline", "Declined, as a stored card would be"),
    declines("4100000000000019", &["radarBlock"], "fraudulent", "Declined: suspected fraud"),
    asks(
        "4000002500003155",
        &["authenticationRequiredOnSetup", "authenticationRequiredSetupForOffSession"],
        None,
        "The bank asks, then it pays",
    ),
    asks("4000002760003184", &["authenticationRequired"], None, "The bank asks every time, then it pays"),
    asks("4000000000003220", &["threeDSecure2Required"], None, "The bank asks, then it pays"),
    asks("4000000000003063", &["threeDSecureRequired"], None, "The bank asks, then it pays"),
    asks(
        "4000008400001629",
        &["threeDSecureRequiredChargeDeclined"],
        Some("generic_decline"),
        "The bank asks, then it is declined",
    ),
    asks(
        "4000008260003178",
        &["authenticationRequiredChargeDeclinedInsufficientFunds"],
        Some("insufficient_funds"),
        "The bank asks, then there is not enough money",
    ),
];

impl TestCard {
    pub fn conduct(&self) -> Conduct {
        Conduct {
            bank_step: self.bank_step,
            decline: self.decline.map(str::to_owned),
            refund: self.refund,
            dispute: self.dispute.map(str::to_owned),
        }
    }

    pub fn last4(&self) -> &'static str {
        self.number.get(self.number.len().saturating_sub(4)..).unwrap_or(self.number)
    }

    pub fn brand(&self) -> &'static str {
        brand(self.number)
    }
}

/// A plain card that pays, whose payment method has this id.
pub fn plain_method(id: String, now: i64) -> Method {
    let (year, _) = crate::clock::year_and_month(now);
    Method {
        id,
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 12,
        exp_year: year + 1,
        name: None,
        email: None,
        created: now,
        conduct: Conduct::default(),
    }
}

/// The card with this number, digits only.
pub fn find_by_number(number: &str) -> Option<&'static TestCard> {
    TEST_CARDS.iter().find(|card| card.number == number)
}

/// The card behind a token such as `pm_card_visa` or `pm_card_visa_chargeDeclinedInsufficientFunds`.
pub fn find_by_token(token: &str) -> Option<&'static TestCard> {
    let name = token.strip_prefix("pm_card_")?;
    let named = |wanted: &str| TEST_CARDS.iter().find(|card| card.tokens.contains(&wanted));
    named(name).or_else(|| named(&format!("visa_{name}"))).or_else(|| named(name.strip_prefix("visa_")?))
}

/// Whose card a number is, e.g. `visa`; the names are the provider's.
pub fn brand(number: &str) -> &'static str {
    let prefix = |digits: usize| number.get(..digits).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    match (prefix(2), prefix(4)) {
        (40..=49, _) => "visa",
        (51..=55, _) | (_, 2221..=2720) => "mastercard",
        (34 | 37, _) => "amex",
        (_, 6011) | (64 | 65, _) => "discover",
        (30 | 36 | 38 | 39, _) => "diners",
        (35, _) => "jcb",
        (62, _) => "unionpay",
        _ => "unknown",
    }
}

/// What the payer's bank says with a decline. Codes other than those of the table are plain declines with that reason.
pub fn card_error(decline: &str) -> CardError {
    let (code, decline_code, message, param) = match decline {
        "expired_card" => ("expired_card", None, "The card has expired.", Some("exp_month")),
        "incorrect_cvc" => ("incorrect_cvc", None, "The card's security code is not right.", Some("cvc")),
        "incorrect_number" => ("incorrect_number", None, "The card number is not right.", Some("number")),
        "processing_error" => {
            ("processing_error", None, "The card could not be processed just now. Trying again later may work.", None)
        }
        "authentication_failed" => (
            "payment_intent_authentication_failure",
            None,
            "The bank did not get the customer's approval for this payment.",
            None,
        ),
        "insufficient_funds" => ("card_declined", Some(decline), "There is not enough money behind the card.", None),
        _ => ("card_declined", Some(decline), "The card was declined.", None),
    };
    CardError {
        code: code.to_owned(),
        decline_code: decline_code.map(str::to_owned),
        message: message.to_owned(),
        param: param.map(str::to_owned),
        charge: None,
        payment_method: None,
    }
}

/// Whether the last digit of a card number fits the others.
pub fn passes_luhn(digits: &str) -> bool {
    let mut sum = 0;
    for (place, digit) in digits.chars().rev().enumerate() {
        let Some(digit) = digit.to_digit(10) else { return false };
        let weighed = if place % 2 == 1 { digit * 2 } else { digit };
        sum += if weighed > 9 { weighed - 9 } else { weighed };
    }
    sum % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_card_is_a_possible_card() {
        for card in TEST_CARDS {
            assert!(passes_luhn(card.number), "{}", card.number);
            assert_ne!(card.brand(), "unknown", "{}", card.number);
            assert_eq!(TEST_CARDS.iter().filter(|other| other.number == card.number).count(), 1, "{}", card.number);
        }
    }

    #[test]
    fn documented_tokens_are_known_with_and_without_the_brand() {
        let decline = |token| find_by_token(token).map(|card| card.decline);
        assert_eq!(decline("pm_card_visa"), Some(None));
        assert_eq!(decline("pm_card_chargeDeclined"), Some(Some("generic_decline")));
        assert_eq!(decline("pm_card_visa_chargeDeclined"), Some(Some("generic_decline")));
        assert_eq!(decline("pm_card_visa_chargeDeclinedInsufficientFunds"), Some(Some("insufficient_funds")));
        assert_eq!(decline("pm_card_chargeDeclinedExpiredCard"), Some(Some("expired_card")));
        assert_eq!(decline("pm_card_chargeDeclinedIncorrectCvc"), Some(Some("incorrect_cvc")));
        assert_eq!(decline("pm_card_visa_threeDSecureRequired"), Some(None));
        assert!(find_by_token("pm_card_nonsense").is_none());
        assert!(find_by_token("tok_visa").is_none());
    }
}
