//! Which answers are definite, and which mean *unknown*: one table, read from the top, the first row that fits decides.
//!
//! Promise: an answer is definite only where a row says so, and only if it is a well-formed error object of Stripe's. The last
//! row says *unknown*, so whatever nobody thought of is. Never: no row is about the text of a message.

use super::wire::{ApiError, Status};
use crate::provider::UnknownReason;

/// What an answer with another status than 200 proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The bank, or the provider for it, said no.
    Declined,
    /// The provider found the request itself wrong and did not act on it.
    Refused,
    /// The secret key was not accepted; nothing was looked at.
    KeyRefused,
    /// Turned away before anything was done.
    RateLimited,
    /// Another call holds this key or this object; that call's outcome counts.
    Busy,
    /// Nothing is proven.
    Unknown(UnknownReason),
}

/// One row. An empty list fits everything.
struct Row {
    statuses: &'static [u16],
    kinds: &'static [&'static str],
    codes: &'static [&'static str],
    params: &'static [&'static str],
    verdict: Verdict,
}

/// Stands in `codes` for an error object without a code.
const NO_CODE: &str = "";

/// Codes of `invalid_request_error` that are about the request or the payment method, not about a state that the payment
/// intent may have reached. A code that is not listed proves nothing.
const REFUSAL_CODES: &[&str] = &[
    NO_CODE,
    "amount_too_large",
    "amount_too_small",
    "charge_already_refunded",
    "charge_disputed",
    "invalid_characters",
    "parameter_invalid_empty",
    "parameter_invalid_integer",
    "parameter_invalid_string_blank",
    "parameter_invalid_string_empty",
    "parameter_missing",
    "parameter_unknown",
    "parameters_exclusive",
    "payment_intent_incompatible_payment_method",
    "payment_intent_invalid_parameter",
    "payment_method_invalid_parameter",
    "payment_method_invalid_parameter_testmode",
    "payment_method_unactivated",
    "resource_missing",
    "url_invalid",
];

const TABLE: &[Row] = &[
    // The key: nothing was looked at. 403 is a key without the permission.
    row(&[401, 403], &[], &[], &[], Verdict::KeyRefused),
    // Locks. Stripe reports the lock of an object as 429, that of an idempotency key as 409.
    row(&[409, 429], &[], &["lock_timeout", "idempotency_key_in_use"], &[], Verdict::Busy),
    row(&[429], &[], &[], &[], Verdict::RateLimited),
    row(&[409], &[], &[], &[], Verdict::Busy),
    // The bank's no.
    row(&[402], &["card_error"], &[], &[], Verdict::Declined),
    // The request itself. The key with other bytes says nothing of the first request.
    row(&[400], &["idempotency_error"], &[], &[], Verdict::Unknown(UnknownReason::KeyReused)),
    row(
        &[400],
        &["invalid_request_error"],
        &["payment_intent_unexpected_state"],
        &[],
        Verdict::Unknown(UnknownReason::UnexpectedState),
    ),
    row(&[400], &["invalid_request_error"], REFUSAL_CODES, &[], Verdict::Refused),
    row(&[404], &["invalid_request_error"], &["resource_missing"], &["payment_method"], Verdict::Refused),
    row(&[404], &[], &[], &[], Verdict::Unknown(UnknownReason::NotFound)),
    // Everything else.
    row(&[], &["api_error"], &[], &[], Verdict::Unknown(UnknownReason::ServerFault)),
    row(&[], &[], &[], &[], Verdict::Unknown(UnknownReason::Unlisted)),
];

const fn row(
    statuses: &'static [u16],
    kinds: &'static [&'static str],
    codes: &'static [&'static str],
    params: &'static [&'static str],
    verdict: Verdict,
) -> Row {
    Row { statuses, kinds, codes, params, verdict }
}

/// What an answer with a status other than 200 proves of a call that concerns `payment_intent` (none while it is created).
///
/// `error` is absent where the body is no error object. Then only a fault can be told from the rest, and neither is definite:
/// something in between may have made up the answer after the provider acted.
pub(super) fn classify(status: u16, error: Option<&ApiError>, payment_intent: Option<&str>) -> Verdict {
    let Some(error) = error else {
        let reason = if status >= 500 { UnknownReason::ServerFault } else { UnknownReason::Unreadable };
        return Verdict::Unknown(reason);
    };
    if status >= 500 {
        return Verdict::Unknown(UnknownReason::ServerFault);
    }
    if let Some(reason) = contradiction(error, payment_intent) {
        return Verdict::Unknown(reason);
    }
    TABLE
        .iter()
        .find(|row| row.fits(status, error))
        .map_or(Verdict::Unknown(UnknownReason::Unlisted), |row| row.verdict)
}

/// An error that comes with a payment intent which may have been charged, or with another one, proves nothing.
fn contradiction(error: &ApiError, payment_intent: Option<&str>) -> Option<UnknownReason> {
    let spoken_of = error.payment_intent.as_ref()?;
    if payment_intent.is_some_and(|id| id != spoken_of.id) {
        return Some(UnknownReason::Mismatch);
    }
    match spoken_of.status {
        Status::RequiresPaymentMethod | Status::RequiresConfirmation | Status::Canceled => None,
        Status::Processing => Some(UnknownReason::Processing),
        Status::RequiresAction | Status::RequiresCapture | Status::Succeeded | Status::Other => {
            Some(UnknownReason::UnexpectedState)
        }
    }
}

impl Row {
    fn fits(&self, status: u16, error: &ApiError) -> bool {
        let code = error.code.as_deref().unwrap_or(NO_CODE);
        let param = error.param.as_deref().unwrap_or_default();
        (self.statuses.is_empty() || self.statuses.contains(&status))
            && (self.kinds.is_empty() || self.kinds.contains(&error.kind.as_str()))
            && (self.codes.is_empty() || self.codes.contains(&code))
            && (self.params.is_empty() || self.params.contains(&param))
    }
}
