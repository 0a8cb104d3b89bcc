//! What a call ends with, and the provider's error object. A `Refusal` is made before anything happened and is never
//! remembered under an idempotency key; what happened and then failed is an ordinary answer with an error in it.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

/// A whole answer, ready to be sent or to be remembered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

pub const JSON: &str = "application/json";
pub const HTML: &str = "text/html; charset=utf-8";

impl Answer {
    pub fn json(status: u16, body: &Value) -> Self {
        Self::stored(status, body.to_string())
    }

    /// An answer with a JSON body whose bytes are fixed already.
    pub fn stored(status: u16, body: String) -> Self {
        Self { status, content_type: JSON, headers: Vec::new(), body }
    }

    pub fn html(status: u16, body: String) -> Self {
        Self { status, content_type: HTML, headers: Vec::new(), body }
    }

    /// Sends the browser elsewhere by GET.
    pub fn see_other(location: &str) -> Self {
        Self::html(303, String::new()).header("location", location)
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.content_type == HTML {
            // The pages need nothing but their own inline style and an empty icon. `form-action` stays open: the bank page leads to shops.
            let policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; \
                          frame-ancestors 'none'";
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        }
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// Why a call was not executed.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: u16,
    error: Map<String, Value>,
}

impl Refusal {
    pub fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        let mut error = Map::new();
        error.insert("type".into(), json!(kind));
        error.insert("message".into(), json!(message.into()));
        Self { status, error }
    }

    /// The request cannot be understood or is not allowed: 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// The card cannot be used: 402.
    pub fn card(message: impl Into<String>) -> Self {
        Self::new(402, "card_error", message)
    }

    /// An object named in the address does not exist: 404.
    pub fn no_such(what: &str, param: &str, id: &str) -> Self {
        let mut refusal = Self::missing(what, param, id);
        refusal.status = 404;
        refusal
    }

    /// An object named by a parameter does not exist: 400, as the provider has it.
    pub fn missing(what: &str, param: &str, id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        Self::invalid(format!("There is no {what} with the id '{id}'.")).code("resource_missing").param(param)
    }

    #[must_use]
    pub fn code(self, code: &str) -> Self {
        self.with("code", json!(code))
    }

    #[must_use]
    pub fn param(self, param: &str) -> Self {
        self.with("param", json!(param))
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.error.insert(name.to_owned(), value);
        self
    }

    pub fn code_text(&self) -> Option<&str> {
        self.error.get("code")?.as_str()
    }

    pub fn message(&self) -> String {
        self.error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub fn param_text(&self) -> Option<&str> {
        self.error.get("param")?.as_str()
    }

    pub fn answer(self) -> Answer {
        Answer::json(self.status, &json!({ "error": self.error }))
    }
}
