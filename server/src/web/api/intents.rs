//! `/api/v1/intents/{uuid}`: one intent.
//!
//! A UUID under two orders is two intents. Where it was used so, the question has to name the order.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse as _, Response},
};
use http::HeaderMap;
use payments::{
    ids::{IntentId, OrderId},
    intent::summary::{self, IntentSummary},
    order,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    auth::Caller,
    not_found,
    openapi::IntentProblems,
    path::IntentPath,
    problem::{Kind, Problem},
    wire::IntentBody,
};
use crate::{shop::Shop, web::RequestFacts};

/// What narrows the question.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct IntentQuery {
    /// The order, where the UUID was used for several.
    #[param(format = Uuid, nullable = false)]
    order: Option<String>,
}

/// Read an intent.
///
/// Where it has no outcome yet and nobody is at work on it, the provider is asked first.
#[utoipa::path(
    get,
    path = "/api/v1/intents/{uuid}",
    operation_id = "readIntent",
    tag = "payments",
    params(("uuid" = String, Path, format = Uuid, description = "The key of its payment"), IntentQuery),
    responses((status = 200, description = "The intent", body = IntentBody), IntentProblems),
)]
pub async fn read(
    State(shop): State<Shop>,
    _caller: Caller,
    IntentPath(id): IntentPath,
    query: Result<Query<IntentQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(query) = query.or(Err(Problem::of(Kind::MalformedRequest, "The query cannot be read.")))?;
    let order = query.order.as_deref().map(OrderId::parse).transpose().or(Err(not_found()))?;
    let mut intent = the_one(&shop, id, order).await?;
    if !intent.state.is_final() {
        // Looks at the provider where that could tell something new; what it learned is read again.
        let order = order::find_by_id(&shop.ctx, intent.order).await?.ok_or_else(not_found)?;
        payments::outcome::ask(&shop.ctx, &order.token, Some(id)).await?;
        intent = the_one(&shop, id, Some(order.id)).await?;
    }
    let facts = RequestFacts::of(&headers);
    let page = |page: &str| shop.site.provider_page(page, facts.host_name());
    Ok(Json(IntentBody::of(&intent, page)).into_response())
}

async fn the_one(shop: &Shop, id: IntentId, order: Option<OrderId>) -> Result<IntentSummary, Problem> {
    let mut found = summary::list_by_id(&shop.ctx, id, order).await?;
    let first = found.pop().ok_or_else(not_found)?;
    if found.is_empty() {
        return Ok(first);
    }
    let orders = found.iter().chain([&first]).map(|intent| intent.order.to_string()).collect();
    Err(Problem::of(Kind::IntentAmbiguous, "Name the order, as `?order=…`.").among(orders))
}

/// Where an intent is found, whatever other orders have of its UUID.
pub fn address(order: OrderId, intent: IntentId) -> String {
    format!("/api/v1/intents/{intent}?order={order}")
}
