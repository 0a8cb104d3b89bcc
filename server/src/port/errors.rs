//! Errors of the domain as a browser may meet them, and what it sends, parsed. Each mapped once, here.

use app::{dto::PayDto, error::CheckoutError};
use payments::{
    ids::{Email, IntentId, OrderToken},
    money::{Currency, Money},
    order::CreateOrderError,
    pay::{PayError, PayRequest},
    pool::StoreError,
    provider::{CardSession, CardSessionOutcome, PaymentMethodToken},
};
use url::Url;

use super::shown::money;

/// When to come back after "still under way" and "cannot answer now": about as long as a bank takes.
pub const RETRY_AFTER_SECONDS: u32 = 2;

/// The database cannot answer.
pub fn unavailable(error: StoreError) -> CheckoutError {
    tracing::warn!(%error, cause = ?std::error::Error::source(&error), "the database cannot answer");
    CheckoutError::Unavailable { retry_after_seconds: RETRY_AFTER_SECONDS }
}

/// No order was made.
pub fn order_error(error: CreateOrderError) -> CheckoutError {
    match error {
        CreateOrderError::OutOfStock { sku, left } => CheckoutError::OutOfStock { sku: sku.to_string(), left },
        CreateOrderError::UnknownSku(_) | CreateOrderError::Empty => CheckoutError::NotFound,
        CreateOrderError::TooMany | CreateOrderError::MixedCurrency(_) => CheckoutError::MalformedRequest,
        CreateOrderError::Store(error) => unavailable(error),
    }
}

/// Pay has no answer.
pub fn pay_error(error: PayError) -> CheckoutError {
    match error {
        PayError::NotFound => CheckoutError::NotFound,
        PayError::Reused => CheckoutError::IntentReused,
        PayError::Purged(order) => CheckoutError::Purged { outcome: format!("/orders/{}", order.expose()) },
        PayError::InProgress | PayError::Begun(_) => {
            CheckoutError::InProgress { retry_after_seconds: RETRY_AFTER_SECONDS }
        }
        PayError::OrderTaken(intent) => CheckoutError::OrderTaken { intent: intent.to_string() },
        PayError::OrderClosed => CheckoutError::OrderClosed,
        PayError::OrderRefused => CheckoutError::AmountRefused,
        PayError::PriceChanged { shown, now } => CheckoutError::PriceChanged { shown: money(shown), now: money(now) },
        PayError::ReplacesUnfinished => CheckoutError::ReplacesUnfinished,
        PayError::NotSent => CheckoutError::NotSent,
        PayError::Unavailable(error) => unavailable(error),
        PayError::MayHaveBegun(_) => CheckoutError::LostAnswer,
    }
}

/// What the provider says of a card session.
pub fn card_session(said: CardSessionOutcome) -> Result<Option<CardSession>, CheckoutError> {
    match said {
        CardSessionOutcome::Found(session) => Ok(Some(session)),
        CardSessionOutcome::Missing => Ok(None),
        CardSessionOutcome::Unavailable => Err(CheckoutError::Unavailable { retry_after_seconds: RETRY_AFTER_SECONDS }),
    }
}

/// Parses what a browser sends to pay. Nothing malformed gets past here, and nothing of it is echoed.
pub fn pay_request(pay: &PayDto, order: OrderToken, return_url: &str) -> Result<PayRequest, CheckoutError> {
    let intent = IntentId::parse(&pay.intent).or(Err(CheckoutError::InvalidIntent))?;
    let replaces = pay.replaces.as_deref().map(IntentId::parse).transpose().or(Err(CheckoutError::InvalidIntent))?;
    let payment_method = PaymentMethodToken::parse(&pay.payment_method)
        .ok()
        .filter(|token| token.expose().starts_with("pm_"))
        .ok_or_else(|| invalid("payment_method", "Enter the card again"))?;
    let email = app::fields::email(&pay.email).map_err(|problem| invalid("email", &problem.sentence))?;
    let email = Email::parse(&email).or(Err(invalid("email", "E-mail address cannot be used")))?;
    let currency = Currency::parse(&pay.currency).or(Err(CheckoutError::MalformedRequest))?;
    let return_url = Url::parse(return_url).or(Err(CheckoutError::MalformedRequest))?;
    let shown = Money::new(pay.amount, currency);
    Ok(PayRequest { order, intent, replaces, payment_method, email: Some(email), shown, return_url })
}

fn invalid(field: &str, problem: &str) -> CheckoutError {
    CheckoutError::InvalidField { field: field.to_owned(), problem: problem.to_owned() }
}
