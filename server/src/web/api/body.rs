//! JSON bodies: what cannot be read is told by name, and never repeated.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};
use crate::shop::Shop;

/// Longest description of a fault; names of unknown members are in it.
const FAULT_CHARS_MAX: usize = 200;

/// A body of this shape. Unknown members are refused: a slip in a name must not silently change what is bought or paid.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shop> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shop: &Shop) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::of(Kind::UnsupportedMediaType, "Send the body as `Content-Type: application/json`."));
        }
        let read = tokio::time::timeout(shop.bounds.body_wait, Bytes::from_request(request, shop));
        let late = || Problem::of(Kind::MalformedRequest, "The body did not arrive in time.");
        let bytes = read.await.or(Err(late()))?.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                Problem::of(Kind::TooLarge, format!("A body has at most {} bytes.", crate::web::MAX_BODY_BYTES))
            } else {
                Problem::of(Kind::MalformedRequest, "The body did not arrive whole.")
            }
        })?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::of(Kind::MalformedRequest, fault(&error)))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return false };
    let kind = only.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// What is wrong with the body, without its values: one of them may be a payment method.
fn fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!("line {}, column {}", error.line(), error.column());
    let told = match text.split_once(", expected ") {
        Some((said, expected)) if said.starts_with("invalid ") => {
            let expected = expected.split(" at line ").next().unwrap_or_default();
            format!("a member has another type or value than expected, which is {expected}")
        }
        Some(_) | None => text.split(" at line ").next().unwrap_or_default().to_owned(),
    };
    let told: String = told.chars().take(FAULT_CHARS_MAX).collect();
    format!("The body cannot be read ({place}): {told}.")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::fault;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its shape matters")]
    struct Body {
        amount: i64,
        payment_method: Option<String>,
    }

    fn check(text: &str, wanted: &str, never: &str) {
        let told = fault(&serde_json::from_str::<Body>(text).expect_err("this is no body"));
        assert!(told.contains(wanted), "{told}");
        assert!(!told.contains(never), "{told}");
    }

    #[test]
    fn faults_name_the_member_and_repeat_no_value() {
        check(r#"{"amount":1,"amuont":2}"#, "unknown field `amuont`", "\n");
        check("{}", "missing field `amount`", "\n");
        check(r#"{"amount":"pm_secret"}"#, "expected, which is i64", "pm_secret");
        check(r#"{"amount":1,"payment_method":4242424242424242}"#, "string", "4242");
        check(r#"{"amount":1,"amount":2}"#, "duplicate field `amount`", "\n");
        check("{", "line 1", "\n");
        assert!(
            fault(&serde_json::from_str::<Body>(&format!(r#"{{"{}":1}}"#, "x".repeat(9_000))).unwrap_err()).len() < 400
        );
    }
}
