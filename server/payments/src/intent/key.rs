//! The idempotency key: operation, subject and UUID. The same UUID under two orders is two keys.

use std::fmt;

use crate::ids::{IntentId, OrderId};

/// What an intent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Pays an order.
    Pay,
    /// Gives money of an order's charge back.
    Refund,
}

impl Operation {
    /// The stable word, as the database holds it and the provider sees it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Refund => "refund",
        }
    }
}

/// The key of one intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntentKey {
    /// What is done.
    pub operation: Operation,
    /// To which order.
    pub order: OrderId,
    /// Under which UUID.
    pub intent: IntentId,
}

impl IntentKey {
    /// The key of a payment.
    pub fn pay(order: OrderId, intent: IntentId) -> Self {
        Self { operation: Operation::Pay, order, intent }
    }

    /// The key of a refund.
    pub fn refund(order: OrderId, intent: IntentId) -> Self {
        Self { operation: Operation::Refund, order, intent }
    }

    /// The key towards the provider, derived from this one, so that every attempt of every replica carries the same.
    pub fn for_provider(&self) -> String {
        format!("payonce:{}:{}:{}", self.operation.as_str(), self.order, self.intent)
    }
}

impl fmt::Display for IntentKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.operation.as_str(), self.order, self.intent)
    }
}
