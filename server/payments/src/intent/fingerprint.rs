//! The fingerprint: whether two requests under one key are the same request.
//!
//! It covers what the payer decided and nothing that changes from one sending to the next: no time, no attempt, no field order,
//! no return address. The order is not in it, since it is part of the key.

use sha2::{Digest as _, Sha256};

use crate::{
    ids::{Email, IntentId},
    money::Money,
    provider::{PaymentMethodToken, RefundReason},
};

/// SHA-256 of a canonical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a payment. Never to be changed for what it covers today, since stored ones are compared with it: a
    /// new field gets a new tag, and the old form where it is absent.
    pub fn of_payment(
        shown: Money,
        payment_method: &PaymentMethodToken,
        replaces: Option<IntentId>,
        email: Option<&Email>,
    ) -> Self {
        let amount = shown.minor.to_string();
        let replaces = replaces.map(|intent| intent.to_string()).unwrap_or_default();
        // No address is empty, so that an absent one cannot pass for another.
        let email = email.map(|email| email.as_str().to_lowercase()).unwrap_or_default();
        Self::of_fields(["pay/1", &amount, shown.currency.code(), payment_method.expose(), &replaces, &email])
    }

    /// The fingerprint of a refund. The charge is not in it, since an order has one that paid.
    pub(crate) fn of_refund(money: Money, reason: Option<RefundReason>) -> Self {
        let amount = money.minor.to_string();
        let reason = reason.map(RefundReason::as_str).unwrap_or_default();
        Self::of_fields(["refund/1", &amount, money.currency.code(), reason])
    }

    /// The fingerprint of a request's fields, the first of which names their form.
    pub(crate) fn of_fields<'a>(fields: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for field in fields {
            // The length before each field keeps two fields from passing for two others.
            hash.update(field.len().to_string());
            hash.update(":");
            hash.update(field);
        }
        Self(hash.finalize().into())
    }

    /// The bytes, as the database holds them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;
    use crate::{
        ids::{Email, IntentId},
        money::{Currency, Money},
        provider::PaymentMethodToken,
    };

    fn check(minor: i64, currency: &str, method: &str, replaces: Option<&str>, email: &str) -> String {
        let fingerprint = Fingerprint::of_payment(
            Money::new(minor, Currency::parse(currency).expect("a currency")),
            &PaymentMethodToken::parse(method).expect("a token"),
            replaces.map(|id| IntentId::parse(id).expect("an intent")),
            Some(&Email::parse(email).expect("an address")),
        );
        hex::encode(fingerprint.as_bytes())
    }

    const OLD: &str = "3b241101-e2bb-4255-8caf-4136c566a962";

    #[test]
    fn pitfall_29_fingerprints_stay_the_same_over_versions() {
        assert_eq!(
            check(4990, "EUR", "pm_card_visa", None, "ana@example.org"),
            "11e18faccdc74c873f6d1d3cebae7ffda201d686b634f292af5ec7232c5f1681",
        );
        assert_eq!(
            check(4990, "EUR", "pm_card_visa", Some(OLD), "ana@example.org"),
            "f268acbc3c40c33570d64a4aede4eb2d40802250fddbafa8921001339a6c079a",
        );
    }

    #[test]
    fn letter_case_of_an_address_does_not_make_another_request() {
        assert_eq!(
            check(4990, "EUR", "pm_1", None, "Ana@Example.org"),
            check(4990, "EUR", "pm_1", None, " ana@example.org ")
        );
    }

    #[test]
    fn b28_whatever_the_payer_decided_makes_another_request() {
        let one = check(1470, "USD", "pm_1", None, "a@b.example");
        for other in [
            check(1471, "USD", "pm_1", None, "a@b.example"),
            check(1470, "EUR", "pm_1", None, "a@b.example"),
            check(1470, "USD", "pm_2", None, "a@b.example"),
            check(1470, "USD", "pm_1", Some(OLD), "a@b.example"),
            check(1470, "USD", "pm_1", None, "b@b.example"),
        ] {
            assert_ne!(one, other);
        }
    }
}
