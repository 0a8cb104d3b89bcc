//! `POST /api/v1/orders/{id}/payments`: Pay for programs. The same intents, the same use case and the same archive as in the
//! browser; the status is the archived one.

use std::time::Duration;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use payments::{
    Ctx,
    ids::{IntentId, OrderId},
    intent::archive::Answer,
    limits::Limits,
    order,
    pay::{self, PayError, PayRequest},
};
use url::Url;

use super::{
    auth::Caller,
    body::JsonBody,
    idempotency_key::{self, KeyHeader},
    intents, not_found,
    openapi::PayProblems,
    orders,
    path::OrderPath,
    prefer,
    problem::{Kind, Problem},
    wire::{Failed, PaymentBody, Pending, Succeeded},
};
use crate::{
    port::{RETRY_AFTER_SECONDS, reachable},
    shop::Shop,
    web::RequestFacts,
};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Pay an order.
///
/// The key is the UUID of the checkout intent. The same key with the same body gets the same answer, byte for byte, whether the
/// first request came from a browser or a program; money moves once. A decline is final for its key.
#[utoipa::path(
    post,
    path = "/api/v1/orders/{id}/payments",
    operation_id = "payOrder",
    tag = "payments",
    params(
        ("id" = String, Path, format = Uuid, description = "The order"),
        ("Idempotency-Key" = String, Header, description = "A UUID of version 4, as its 36 characters, in double quotes or bare", format = Uuid, pattern = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$", example = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait for the outcome at most N seconds; 10 where absent, never more than 30", example = "wait=5"),
    ),
    request_body = PaymentBody,
    responses(
        (
            status = 200, description = "Paid", body = Succeeded,
            headers(
                ("Idempotent-Replayed" = String, description = "`true` where the answer was archived before this request"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        (
            status = 202, description = "The wait is over and the outcome is not known yet", body = Pending,
            headers(
                ("Retry-After" = i32, description = "Seconds after which to send the same request again, or to ask"),
                ("Location" = String, description = "Where to ask for the intent"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        (
            status = 402, description = "Declined; final for this key", body = Failed,
            headers(
                ("Idempotent-Replayed" = String, description = "`true` where the answer was archived before this request"),
                ("Preference-Applied" = String, description = "The wait that was granted, where one was asked for"),
            ),
        ),
        PayProblems,
    ),
)]
pub async fn pay(
    State(shop): State<Shop>,
    Caller(api_key): Caller,
    OrderPath(id): OrderPath,
    KeyHeader(key): KeyHeader,
    headers: HeaderMap,
    JsonBody(body): JsonBody<PaymentBody>,
) -> Result<Response, Problem> {
    let intent = IntentId::parse(&key)
        .or(Err(idempotency_key::malformed("The key of a payment is a UUID of version 4, as its 36 characters.")))?;
    let payment = body.parse()?;
    let order = order::find_by_id(&shop.ctx, id).await?.ok_or_else(not_found)?;
    let facts = RequestFacts::of(&headers);
    let return_url = format!("{}/orders/{}", shop.site.shop_url(facts.host.as_deref()), order.token.expose());
    let request = PayRequest {
        order: order.token,
        intent,
        replaces: payment.replaces,
        payment_method: payment.payment_method,
        email: payment.email,
        shown: payment.shown,
        return_url: Url::parse(&return_url).or(Err(Problem::of(Kind::MalformedRequest, "The `Host` is no host.")))?,
    };

    let wait = prefer::wait(&headers);
    let mut response = match pay::begin(&waiting(&shop.ctx, wait), request).await {
        Ok(said) => {
            tracing::info!(%intent, %api_key, status = said.answer.status, replayed = said.replayed, "pay answered");
            let mut response = answered(&said.answer, reachable(&shop, &facts, &said.answer), said.replayed);
            come_back(&mut response, id, intent);
            response
        }
        Err(PayError::Begun(answer)) => {
            tracing::info!(%intent, %api_key, "pay has begun, and the wait is over");
            let mut response = answered(&answer, answer.body.clone(), false);
            come_back(&mut response, id, intent);
            response
        }
        Err(error) => {
            tracing::info!(%intent, %api_key, %error, "pay refused");
            problem(error, id, intent).into_response()
        }
    };
    if let Some(wait) = wait {
        response.headers_mut().insert(prefer::PREFERENCE_APPLIED, prefer::applied(wait));
    }
    Ok(response)
}

/// The context of one call that waits as long as its program wishes.
pub fn waiting(ctx: &Ctx, wait: Option<Duration>) -> Ctx {
    let pay_wait = wait.unwrap_or(ctx.limits.pay_wait);
    Ctx { limits: Limits { pay_wait, ..ctx.limits.clone() }, ..ctx.clone() }
}

/// An answer as it is, marked where it is a repeat.
pub fn answered(answer: &Answer, body: Bytes, replayed: bool) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&answer.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    if replayed {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// An outcome that is not known yet says when and where to ask.
fn come_back(response: &mut Response, order: OrderId, intent: IntentId) {
    if response.status() == StatusCode::ACCEPTED {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        if let Ok(address) = HeaderValue::from_str(&intents::address(order, intent)) {
            response.headers_mut().insert(header::LOCATION, address);
        }
    }
}

fn problem(error: PayError, order: OrderId, intent: IntentId) -> Problem {
    match error {
        PayError::NotFound => not_found(),
        PayError::Reused => {
            Problem::of(Kind::KeyReused, "The first request of this key stands.").at(intents::address(order, intent))
        }
        PayError::Purged(_) => {
            let detail = "The answer to this key is no longer kept. The intent says how it ended; nothing was begun.";
            Problem::of(Kind::KeyPurged, detail).at(intents::address(order, intent))
        }
        PayError::InProgress | PayError::Begun(_) => {
            let detail =
                "The wait is over. Send the same request again, or ask for the intent; do not pay under another key.";
            Problem::of(Kind::InProgress, detail).at(intents::address(order, intent))
        }
        PayError::OrderTaken(other) => {
            let detail = "Another intent of this order is under way or has paid it. This one was not begun.";
            Problem::of(Kind::OrderTaken, detail).at(intents::address(order, other))
        }
        PayError::OrderClosed => {
            Problem::of(Kind::OrderClosed, "The order is closed. Nothing was charged.").at(orders::address(order))
        }
        PayError::OrderRefused => {
            let detail = "The order's amount is too small or too large for the provider. Nothing was charged.";
            Problem::of(Kind::OrderRefused, detail).at(orders::address(order))
        }
        PayError::PriceChanged { now, .. } => {
            let detail = format!("The order costs {} {}. Nothing was charged.", now.minor, now.currency);
            Problem::of(Kind::PriceChanged, detail).at(orders::address(order))
        }
        PayError::ReplacesUnfinished => {
            let detail = "`replaces` names no failed intent of this order. Nothing was charged.";
            Problem::of(Kind::ReplacesUnfinished, detail).about("replaces")
        }
        PayError::NotSent => {
            Problem::of(Kind::NotSent, "Nothing was sent to the provider. Send the same request again.")
        }
        PayError::Unavailable(error) | PayError::MayHaveBegun(error) => error.into(),
    }
}
