//! From the provider's decline codes to the few reasons that a customer may hear.
//!
//! Promise: every code has a reason; one that nobody knows is `Generic`. Never: a card that was reported lost or stolen, or
//! that the bank holds for fraud, is not told apart from any other refusal, neither here nor by its absence from the table.

use super::wire::{ApiError, tame_code};
use crate::provider::{Decline, DeclineReason};

/// Codes with a reason of their own, from Stripe's lists of decline codes and error codes. All others are `Generic`.
const REASONS: &[(DeclineReason, &[&str])] = &[
    (DeclineReason::InsufficientFunds, &["insufficient_funds"]),
    (DeclineReason::ExpiredCard, &["expired_card", "invalid_expiry_month", "invalid_expiry_year"]),
    (DeclineReason::IncorrectCode, &["incorrect_cvc", "invalid_cvc"]),
    (DeclineReason::IncorrectNumber, &["incorrect_number", "invalid_number"]),
    (
        DeclineReason::BankCheckFailed,
        &[
            "authentication_not_handled",
            "authentication_required",
            "mobile_device_authentication_required",
            "offline_pin_required",
            "online_or_offline_pin_required",
            "payment_intent_authentication_failure",
        ],
    ),
    (
        DeclineReason::CardNotSupported,
        &[
            "card_not_supported",
            "currency_not_supported",
            "not_permitted",
            "service_not_allowed",
            "transaction_not_allowed",
        ],
    ),
    (
        DeclineReason::OverLimit,
        &["amount_too_large", "card_velocity_exceeded", "invalid_amount", "withdrawal_count_limit_exceeded"],
    ),
    (
        DeclineReason::TryLater,
        &[
            "approve_with_id",
            "card_decline_rate_limit_exceeded",
            "issuer_not_available",
            "processing_error",
            "reenter_transaction",
            "try_again_later",
        ],
    ),
];

/// Reads a card error. Its `decline_code` says more than its `code`, where it has one.
pub(super) fn decline(error: &ApiError) -> Decline {
    let code = error.decline_code.as_deref().or(error.code.as_deref());
    Decline { code: tame_code(code), reason: code.map_or(DeclineReason::Generic, reason_of) }
}

fn reason_of(code: &str) -> DeclineReason {
    REASONS.iter().find(|(_, codes)| codes.contains(&code)).map_or(DeclineReason::Generic, |(reason, _)| *reason)
}

#[cfg(test)]
mod tests {
    use super::reason_of;
    use crate::provider::DeclineReason;

    #[test]
    fn lost_stolen_and_fraud_are_never_told_apart() {
        for code in [
            "card_declined",
            "do_not_honor",
            "fraudulent",
            "generic_decline",
            "lost_card",
            "merchant_blacklist",
            "pickup_card",
            "restricted_card",
            "security_violation",
            "stolen_card",
            "a_code_of_tomorrow",
            "",
        ] {
            assert_eq!(reason_of(code), DeclineReason::Generic, "{code}");
        }
    }

    #[test]
    fn what_the_customer_can_mend_has_a_reason_of_its_own() {
        for (code, reason) in [
            ("insufficient_funds", DeclineReason::InsufficientFunds),
            ("expired_card", DeclineReason::ExpiredCard),
            ("incorrect_cvc", DeclineReason::IncorrectCode),
            ("incorrect_number", DeclineReason::IncorrectNumber),
            ("authentication_required", DeclineReason::BankCheckFailed),
            ("card_not_supported", DeclineReason::CardNotSupported),
            ("card_velocity_exceeded", DeclineReason::OverLimit),
            ("processing_error", DeclineReason::TryLater),
        ] {
            assert_eq!(reason_of(code), reason, "{code}");
        }
    }
}
