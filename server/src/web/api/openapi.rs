//! The description of the API: what the routes say of themselves, the problems that each can answer with, and the frame around.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use axum::response::{IntoResponse, Response};
use http::header;
use utoipa::{
    IntoResponses, Modify, OpenApi,
    openapi::{
        self, Content, Ref, RefOr,
        header::HeaderBuilder,
        response::ResponseBuilder,
        schema::{ObjectBuilder, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::problem::{Kind, MEDIA_TYPE, Problem};

/// `GET /api/openapi.json`.
pub async fn serve() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(super::document);
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}

/// The description without its routes.
pub fn frame() -> openapi::OpenApi {
    Frame::openapi()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Payonce",
        description = "The checkout for programs. An order is made and paid once, however often a request is repeated: \
                       every POST carries an `Idempotency-Key`, and a repeat gets the same bytes, marked \
                       `Idempotent-Replayed: true`. What is no outcome is a problem (RFC 9457), which says whether the \
                       outcome is known and whether the same request may be sent again."
    ),
    components(schemas(Problem)),
    modifiers(&ApiKeys),
    tags(
        (name = "orders", description = "What is bought"),
        (name = "payments", description = "Checkout intents: one try to pay one order, named by one UUID"),
        (name = "refunds", description = "Money back, each refund named by one UUID"),
    ),
)]
struct Frame;

struct ApiKeys;

impl Modify for ApiKeys {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("payonce_…")
            .description(Some("An API key, as `payonce api-key create` shows it once"))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
        document.security = Some(vec![SecurityRequirement::new("api_key", Vec::<String>::new())]);
    }
}

/// What every route may answer with.
const ANYWHERE: [Kind; 4] = [Kind::Unauthorized, Kind::RateLimited, Kind::Internal, Kind::Unavailable];

/// What every POST may answer with.
const POSTS: [Kind; 7] = [
    Kind::MalformedRequest,
    Kind::KeyMissing,
    Kind::KeyMalformed,
    Kind::TooLarge,
    Kind::UnsupportedMediaType,
    Kind::KeyReused,
    Kind::InvalidField,
];

/// The problems of `POST /api/v1/orders`.
pub struct CreateProblems;

/// The problems of `POST /api/v1/orders/{id}/payments`.
pub struct PayProblems;

/// The problems of `POST /api/v1/orders/{id}/refunds`.
pub struct RefundProblems;

/// The problems of `GET /api/v1/orders/{id}`.
pub struct ReadProblems;

/// The problems of `GET /api/v1/intents/{uuid}`.
pub struct IntentProblems;

impl IntoResponses for CreateProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        problems(&[&ANYWHERE, &POSTS, &[Kind::OutOfStock, Kind::KeyPurged]])
    }
}

impl IntoResponses for PayProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = [
            Kind::NotFound,
            Kind::InProgress,
            Kind::OrderTaken,
            Kind::PriceChanged,
            Kind::KeyPurged,
            Kind::OrderClosed,
            Kind::OrderRefused,
            Kind::ReplacesUnfinished,
            Kind::NotSent,
        ];
        problems(&[&ANYWHERE, &POSTS, &own])
    }
}

impl IntoResponses for RefundProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let own = [
            Kind::NotFound,
            Kind::InProgress,
            Kind::NotPaid,
            Kind::PaymentUnresolved,
            Kind::ExceedsRemaining,
            Kind::KeyPurged,
            Kind::NotSent,
        ];
        problems(&[&ANYWHERE, &POSTS, &own])
    }
}

impl IntoResponses for ReadProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        problems(&[&ANYWHERE, &[Kind::NotFound]])
    }
}

impl IntoResponses for IntentProblems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        problems(&[&ANYWHERE, &[Kind::MalformedRequest, Kind::NotFound, Kind::IntentAmbiguous]])
    }
}

/// One response for each status, which names the kinds that have it.
fn problems(kinds: &[&[Kind]]) -> BTreeMap<String, RefOr<openapi::Response>> {
    let all: BTreeSet<Kind> = kinds.iter().copied().flatten().copied().collect();
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in all {
        by_status.entry(kind.status()).or_default().push(kind);
    }
    by_status.into_iter().map(|(status, kinds)| (status.to_string(), response(status, &kinds).into())).collect()
}

fn response(status: u16, kinds: &[Kind]) -> openapi::Response {
    let told = |kind: &Kind| format!("`{}`: {}", name(*kind), kind.facts().1);
    let description = kinds.iter().map(told).collect::<Vec<_>>().join(". ");
    let mut content = Content::new(Some(Ref::from_schema_name("Problem")));
    content.example = kinds.first().map(|kind| example(*kind));
    let mut response = ResponseBuilder::new().description(description).content(MEDIA_TYPE, content);
    let header = |kind: Type, about: &str| {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
    };
    match status {
        401 => response = response.header("WWW-Authenticate", header(Type::String, "`Bearer`")),
        409 | 429 | 500 | 503 => {
            let about = "Seconds after which the same request may be sent again, where that helps";
            response = response.header("Retry-After", header(Type::Integer, about));
        }
        _ => {}
    }
    if matches!(status, 409 | 410 | 422) {
        response = response.header("Location", header(Type::String, "Where to find what stands instead"));
    }
    response.build()
}

/// The kind's `type`.
fn name(kind: Kind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn example(kind: Kind) -> serde_json::Value {
    serde_json::to_value(Problem::of(kind, kind.facts().1)).unwrap_or_default()
}
