//! `/api/v1/orders`: make an order, read one.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, header};
use payments::{
    intent::summary,
    order::{
        self, CreateOrderError,
        by_key::{NewOrderByKey, OrderByKeyError, OrderKey},
    },
    refund,
};

use super::{
    auth::Caller,
    body::JsonBody,
    idempotency_key::{self, KeyHeader},
    not_found,
    openapi::{CreateProblems, ReadProblems},
    path::OrderPath,
    payments::answered,
    problem::{Kind, Problem},
    wire::{IntentBody, NewOrderBody, OrderBody, OrderMade, too_many},
};
use crate::{shop::Shop, web::RequestFacts};

/// Make an order.
///
/// The same key with the same body gets the same answer, byte for byte, for 24 hours; the order is made once. Keys belong to the
/// API key that sent them. Stock is taken when the order is made.
#[utoipa::path(
    post,
    path = "/api/v1/orders",
    operation_id = "createOrder",
    tag = "orders",
    params(
        ("Idempotency-Key" = String, Header, description = "1 to 255 printable characters of ASCII, in double quotes or bare; bare, without spaces and `\"`, `,`, `;`, `\\`", min_length = 1, max_length = 255, pattern = r"^[!#-+\--:<-\[\]-~]{1,255}$", example = "cart-7319"),
    ),
    request_body = NewOrderBody,
    responses(
        (
            status = 201, description = "The order", body = OrderMade,
            headers(
                ("Location" = String, description = "The order's address"),
                ("Idempotent-Replayed" = String, description = "`true` where an earlier call made the order"),
            ),
        ),
        CreateProblems,
    ),
)]
pub async fn create(
    State(shop): State<Shop>,
    Caller(api_key): Caller,
    KeyHeader(key): KeyHeader,
    headers: HeaderMap,
    JsonBody(body): JsonBody<NewOrderBody>,
) -> Result<Response, Problem> {
    let key = OrderKey::parse(&key).or(Err(idempotency_key::malformed("This is no `Idempotency-Key`.")))?;
    let (currency, lines, email) = body.parse()?;
    let checkouts_url = checkout_url(&shop, &headers, "");
    let new = NewOrderByKey { api_key, key, currency, lines, email, checkouts_url };
    let made = order::by_key::create(&shop.ctx, &new).await.map_err(|error| problem(error, &new))?;
    tracing::info!(order = %made.id, %api_key, replayed = made.replayed, "order made for a program");
    let body = made.answer.body.clone();
    let mut response = answered(&made.answer, body, made.replayed);
    if let Ok(address) = HeaderValue::from_str(&address(made.id)) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}

/// Read an order.
///
/// With its lines, intents and refunds. Where an intent has no outcome yet and nobody is at work on it, the provider is asked first.
#[utoipa::path(
    get,
    path = "/api/v1/orders/{id}",
    operation_id = "readOrder",
    tag = "orders",
    params(("id" = String, Path, format = Uuid, description = "The order")),
    responses((status = 200, description = "The order", body = OrderBody), ReadProblems),
)]
pub async fn read(
    State(shop): State<Shop>,
    _caller: Caller,
    OrderPath(id): OrderPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let order = order::find_by_id(&shop.ctx, id).await?.ok_or_else(not_found)?;
    // Looks at the provider where that could tell something new; what it learned is read below.
    let outcome = payments::outcome::ask(&shop.ctx, &order.token, None).await?.ok_or_else(not_found)?;
    let lines = order::list_lines(&shop.ctx, &outcome.order).await?;
    let intents = summary::list_of_order(&shop.ctx, id).await?;
    let refunds = refund::list_of_order(&shop.ctx, id).await?;
    let left = refund::remaining(&shop.ctx, id).await?.ok_or_else(not_found)?;
    let facts = RequestFacts::of(&headers);
    let page = |page: &str| shop.site.provider_page(page, facts.host_name());
    let intents = intents.iter().map(|intent| IntentBody::of(intent, page)).collect();
    let checkout_url = checkout_url(&shop, &headers, order.token.expose());
    Ok(Json(OrderBody::of(&outcome.order, checkout_url, &lines, intents, (left, &refunds))).into_response())
}

fn checkout_url(shop: &Shop, headers: &HeaderMap, token: &str) -> String {
    format!("{}/checkout/{token}", shop.site.shop_url(RequestFacts::of(headers).host.as_deref()))
}

/// Where an order is found.
pub fn address(order: payments::ids::OrderId) -> String {
    format!("/api/v1/orders/{order}")
}

fn problem(error: OrderByKeyError, new: &NewOrderByKey) -> Problem {
    let field_of = |sku: &payments::ids::Sku| {
        let is_it = |line: &order::by_key::NewLine| matches!(line, order::by_key::NewLine::Product { sku: other, .. } if other == sku);
        format!("lines[{}].sku", new.lines.iter().position(is_it).unwrap_or_default())
    };
    match error {
        OrderByKeyError::Reused => {
            Problem::of(Kind::KeyReused, "The first request of this key stands. Use a new key for another order.")
        }
        OrderByKeyError::Purged(order) => {
            Problem::of(Kind::KeyPurged, "This key has made an order. It is still at its address.").at(address(order))
        }
        OrderByKeyError::Refused(CreateOrderError::OutOfStock { sku, left }) => {
            let detail = format!("{left} pieces of {sku} are left. Nothing was made or taken.");
            Problem::of(Kind::OutOfStock, detail).about(field_of(&sku))
        }
        OrderByKeyError::Refused(CreateOrderError::UnknownSku(sku)) => {
            Problem::field(field_of(&sku), "There is no such product.")
        }
        OrderByKeyError::Refused(CreateOrderError::MixedCurrency(sku)) => {
            Problem::field(field_of(&sku), "This product is sold in another currency.")
        }
        OrderByKeyError::Refused(CreateOrderError::Empty | CreateOrderError::TooMany) => too_many(),
        OrderByKeyError::Refused(CreateOrderError::Store(error)) => error.into(),
    }
}
