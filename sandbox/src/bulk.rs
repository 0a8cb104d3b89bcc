//! A bulk of payments that were made elsewhere: a pattern and a count instead of a million records. Pure: the same bulk
//! always gives the same payments, so the journal needs one line for all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cards;
use crate::records::{Charge, Intent, IntentStatus, Method};
use crate::table::Place;

/// Digits of an index in an id.
const DIGITS: usize = 12;

/// Payments that follow a pattern.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bulk {
    /// What all ids have after `pi_` and `ch_`: 12 letters and digits. The index follows, in 12 digits.
    pub prefix: String,
    pub count: u64,
    /// When the first one was made; the others follow, so many in each second.
    pub created: i64,
    pub per_second: u64,
    /// The amount of the first one; the next one is one more, until after so many the first amount comes again.
    pub amount: i64,
    pub amounts: u64,
    pub currency: String,
    /// `{n}` in a value is the index, `{hex}` the index in 12 hexadecimal digits.
    pub metadata: BTreeMap<String, String>,
}

impl Bulk {
    /// Where the payment with this index stands in a table in which the bulk has numbers from `base`.
    pub fn place(&self, base: u64, index: u64) -> Place {
        (self.created_at(index), base + index)
    }

    /// The first index at or behind a place; the count if there is none.
    pub fn first_at(&self, base: u64, (created, number): Place) -> u64 {
        let Ok(seconds) = u64::try_from(created.saturating_sub(self.created)) else { return 0 };
        let first_of_second = seconds.saturating_mul(self.per_second);
        let first_of_next = first_of_second.saturating_add(self.per_second);
        number.saturating_sub(base).clamp(first_of_second, first_of_next).min(self.count)
    }

    pub fn index_of(&self, kind: &str, id: &str) -> Option<u64> {
        let digits = id.strip_prefix(kind)?.strip_prefix(self.prefix.as_str())?;
        let all_digits = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        let index = digits.parse().ok().filter(|_| all_digits)?;
        (index < self.count).then_some(index)
    }

    pub fn intent(&self, index: u64) -> Intent {
        let id = self.id("pi_", index);
        let method = self.method(index);
        Intent {
            client_secret: format!("{id}_secret_{}", self.prefix),
            id,
            amount: self.amount_of(index),
            currency: self.currency.clone(),
            status: IntentStatus::Succeeded,
            description: None,
            receipt_email: None,
            metadata: self.metadata_of(index),
            payment_method: Some(method.id),
            latest_charge: Some(self.id("ch_", index)),
            last_error: None,
            step: None,
            created: self.created_at(index),
            canceled_at: None,
            cancellation_reason: None,
        }
    }

    pub fn charge(&self, index: u64) -> Charge {
        Charge {
            id: self.id("ch_", index),
            amount: self.amount_of(index),
            amount_refunded: 0,
            amount_disputed: 0,
            dispute: None,
            currency: self.currency.clone(),
            payment_intent: self.id("pi_", index),
            payment_method: self.method(index),
            description: None,
            metadata: self.metadata_of(index),
            idempotency_key: None,
            error: None,
            created: self.created_at(index),
        }
    }

    fn id(&self, kind: &str, index: u64) -> String {
        format!("{kind}{}{index:0DIGITS$}", self.prefix)
    }

    fn created_at(&self, index: u64) -> i64 {
        self.created.saturating_add(i64::try_from(index / self.per_second.max(1)).unwrap_or(i64::MAX))
    }

    fn amount_of(&self, index: u64) -> i64 {
        self.amount.saturating_add(i64::try_from(index % self.amounts.max(1)).unwrap_or(0))
    }

    fn metadata_of(&self, index: u64) -> BTreeMap<String, String> {
        let filled = |value: &str| value.replace("{n}", &index.to_string()).replace("{hex}", &format!("{index:012x}"));
        self.metadata.iter().map(|(name, value)| (name.clone(), filled(value))).collect()
    }

    /// The card behind every payment of the bulk.
    fn method(&self, index: u64) -> Method {
        cards::plain_method(self.id("pm_", index), self.created_at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_indexes_are_each_others_inverse() {
        let bulk = Bulk {
            prefix: "aaaaaaaaaaaa".into(),
            count: 1000,
            created: 5000,
            per_second: 7,
            amount: 100,
            amounts: 3,
            currency: "eur".into(),
            metadata: BTreeMap::from([("order".into(), "o-{n}-{hex}".into())]),
        };
        for index in 0..1000 {
            let place = bulk.place(40, index);
            assert_eq!(bulk.first_at(40, place), index);
            assert_eq!(bulk.first_at(40, (place.0, place.1 + 1)), index + 1);
            assert_eq!(bulk.index_of("ch_", &bulk.charge(index).id), Some(index));
        }
        assert_eq!((bulk.first_at(40, (0, 0)), bulk.first_at(40, (i64::MAX, 0))), (0, 1000));
        assert_eq!(bulk.index_of("ch_", "ch_aaaaaaaaaaaa000000001000"), None);
        assert_eq!(bulk.charge(11).metadata["order"], "o-11-00000000000b");
        assert_eq!((bulk.charge(3).amount, bulk.charge(4).amount), (100, 101));
    }
}
