//! `POST /api/v1/orders/{id}/refunds`: money back, for programs. A refund is an intent of its own: its key is its UUID, and its
//! answer is archived.

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use payments::{
    ids::{IntentId, OrderId},
    order,
    refund::{self, RefundError, RefundRequest},
};

use super::{
    auth::Caller,
    body::JsonBody,
    idempotency_key::{self, KeyHeader},
    not_found,
    openapi::RefundProblems,
    orders,
    path::OrderPath,
    payments::{answered, waiting},
    prefer,
    problem::{Kind, Problem},
    wire::{RefundBody, RefundFailed, RefundPending, RefundSucceeded},
};
use crate::{port::RETRY_AFTER_SECONDS, shop::Shop};

/// Refund an order, in whole or in part.
///
/// The key is the UUID of the refund. The same key with the same body gets the same answer, byte for byte; money goes back once.
/// Refunds under way, refunds made at the provider by somebody else, and what is disputed all count against what is left.
#[utoipa::path(
    post,
    path = "/api/v1/orders/{id}/refunds",
    operation_id = "refundOrder",
    tag = "refunds",
    params(
        ("id" = String, Path, format = Uuid, description = "The order"),
        ("Idempotency-Key" = String, Header, description = "A UUID of version 4, as its 36 characters, in double quotes or bare", format = Uuid, pattern = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$", example = "5d0b4f8e-2c7a-4b19-8f36-71e0a9c4d253"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait for the outcome at most N seconds; 10 where absent, never more than 30", example = "wait=5"),
    ),
    request_body = RefundBody,
    responses(
        (
            status = 200, description = "Given back", body = RefundSucceeded,
            headers(
                ("Idempotent-Replayed" = String, description = "`true` where the answer was archived before this request"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        (
            status = 202, description = "Under way: the bank takes its time, or the outcome is not known yet", body = RefundPending,
            headers(
                ("Retry-After" = i32, description = "Seconds after which to send the same request again, or to ask"),
                ("Location" = String, description = "The order, which lists its refunds"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        (
            status = 402, description = "Not given back; final for this key", body = RefundFailed,
            headers(
                ("Idempotent-Replayed" = String, description = "`true` where the answer was archived before this request"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        RefundProblems,
    ),
)]
pub async fn refund(
    State(shop): State<Shop>,
    Caller(api_key): Caller,
    OrderPath(id): OrderPath,
    KeyHeader(key): KeyHeader,
    headers: HeaderMap,
    JsonBody(body): JsonBody<RefundBody>,
) -> Result<Response, Problem> {
    let intent = IntentId::parse(&key)
        .or(Err(idempotency_key::malformed("The key of a refund is a UUID of version 4, as its 36 characters.")))?;
    let order = order::find_by_id(&shop.ctx, id).await?.ok_or_else(not_found)?;
    let (money, reason) = body.parse(order.total.currency)?;
    let wait = prefer::wait(&headers);
    let request = RefundRequest { order: id, intent, money, reason };
    let mut response = match refund::refund(&waiting(&shop.ctx, wait), request).await {
        Ok(said) => {
            tracing::info!(%intent, order = %id, %api_key, status = said.answer.status, replayed = said.replayed, "refund answered");
            let mut response = answered(&said.answer, said.answer.body.clone(), said.replayed);
            come_back(&mut response, id);
            response
        }
        Err(error) => {
            tracing::info!(%intent, order = %id, %api_key, %error, "refund refused");
            problem(error, id).into_response()
        }
    };
    if let Some(wait) = wait {
        response.headers_mut().insert(prefer::PREFERENCE_APPLIED, prefer::applied(wait));
    }
    Ok(response)
}

/// A refund without an end says when and where to ask.
fn come_back(response: &mut Response, order: OrderId) {
    if response.status() == StatusCode::ACCEPTED {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        if let Ok(address) = HeaderValue::from_str(&orders::address(order)) {
            response.headers_mut().insert(header::LOCATION, address);
        }
    }
}

fn problem(error: RefundError, order: OrderId) -> Problem {
    let at_order = |problem: Problem| problem.at(orders::address(order));
    match error {
        RefundError::NotFound => not_found(),
        RefundError::Reused => at_order(Problem::of(Kind::KeyReused, "The first request of this key stands.")),
        RefundError::Purged => {
            let detail = "The answer to this key is no longer kept. The order lists its refunds; nothing was begun.";
            at_order(Problem::of(Kind::KeyPurged, detail))
        }
        RefundError::InProgress => {
            let detail = "The wait is over. Send the same request again, or ask for the order; use no other key.";
            at_order(Problem::of(Kind::InProgress, detail))
        }
        RefundError::NotPaid => {
            at_order(Problem::of(Kind::NotPaid, "There is nothing to give back. Nothing was sent."))
        }
        RefundError::PaymentUnresolved => {
            let detail = "Whether the order is paid is not known yet. Nothing was sent; send the same request again.";
            at_order(Problem::of(Kind::PaymentUnresolved, detail))
        }
        RefundError::WrongCurrency(currency) => Problem::field("currency", format!("The order is in {currency}.")),
        RefundError::TooMuch(left) => {
            let (minor, currency) = (left.remaining.minor, left.remaining.currency);
            let disputed =
                if left.disputed.minor > 0 { format!(" {} are disputed.", left.disputed.minor) } else { String::new() };
            let detail = format!("{minor} {currency} can still be given back.{disputed} Nothing was sent.");
            at_order(Problem::of(Kind::ExceedsRemaining, detail).leaving(minor))
        }
        RefundError::AmountRefused => Problem::field("amount", "The provider cannot give back this amount."),
        RefundError::NotSent => {
            Problem::of(Kind::NotSent, "Nothing was sent to the provider. Send the same request again.")
        }
        RefundError::Unavailable(error) | RefundError::MayHaveBegun(error) => error.into(),
    }
}
