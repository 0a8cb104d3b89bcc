//! Why a card was not charged, in the words that a customer may hear.
//!
//! Promise: a reason's text is stable, since it is archived. Never: lost, stolen and fraud have no word of their own here, so
//! that nobody can learn them from this shop.

use std::fmt;

/// A definite "not charged".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The provider's own code, short and safe to log; for the merchant, never for the customer.
    pub code: String,
    pub reason: DeclineReason,
}

/// Why an intent FAILED, as far as the customer may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeclineReason {
    Generic,
    InsufficientFunds,
    ExpiredCard,
    IncorrectCode,
    IncorrectNumber,
    BankCheckFailed,
    CardNotSupported,
    OverLimit,
    TryLater,
    /// Not the bank's no: it is proven that nothing was charged.
    NotCharged,
}

impl DeclineReason {
    /// Every reason, so that tables and tests can go through them.
    pub const ALL: [Self; 10] = [
        Self::Generic,
        Self::InsufficientFunds,
        Self::ExpiredCard,
        Self::IncorrectCode,
        Self::IncorrectNumber,
        Self::BankCheckFailed,
        Self::CardNotSupported,
        Self::OverLimit,
        Self::TryLater,
        Self::NotCharged,
    ];

    /// The stable word, as archives hold it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::InsufficientFunds => "insufficient_funds",
            Self::ExpiredCard => "expired_card",
            Self::IncorrectCode => "incorrect_code",
            Self::IncorrectNumber => "incorrect_number",
            Self::BankCheckFailed => "bank_check_failed",
            Self::CardNotSupported => "card_not_supported",
            Self::OverLimit => "over_limit",
            Self::TryLater => "try_later",
            Self::NotCharged => "not_charged",
        }
    }

    /// The reason of a stored word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl fmt::Display for DeclineReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::DeclineReason;

    #[test]
    fn every_reason_reads_back_from_its_word() {
        for reason in DeclineReason::ALL {
            assert_eq!(DeclineReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(DeclineReason::parse("lost_card"), None);
    }
}
