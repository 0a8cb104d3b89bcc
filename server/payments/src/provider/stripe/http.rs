//! One bounded exchange with the provider: bytes out, and a status and bytes back, or the reason why not.
//!
//! Promise: [`Silence::NotSent`] is said only when the connection was never made, so not one byte of the request has left.
//! hyper reports such errors as *connect* errors and nothing else so: its client makes them while it looks for a connection,
//! before it hands the request over. (A request that it takes back unwritten from a pooled connection, which the provider had
//! closed, is silently put on a fresh one; that is harmless, since nothing was written.) TLS early data stays off, which would
//! write before the handshake ends. Everything after is [`Silence::Unknown`]. Never: no redirect is followed, no proxy of the
//! environment is used, nothing is retried here, and no body or header gets into a log.

use std::{error::Error, time::Duration};

use bytes::{Bytes, BytesMut};
use reqwest::{
    Client, Method,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect, retry,
};
use url::Url;

use super::config::{StripeConfig, StripeConfigError};
use crate::provider::{NotSentReason, UnknownReason};

/// The version of the API, on every call; without it an account's dashboard decides. `wire.rs` is held to recorded answers of
/// this one. It is not the newest: from `2026-09-30.endive` on, a payment intent is no longer made with `payment_method_types`,
/// which is how ours are limited to cards. Stripe keeps old versions running.
pub(super) const STRIPE_VERSION: &str = "2024-06-20";

/// Longest answer that is read. A payment intent with an expanded charge takes about 6 KiB.
pub(super) const ANSWER_MAX_BYTES: usize = 256 * 1024;

/// Longest page of a list that is read: a hundred objects of the largest kind, an event of a payment intent, take about 1 MiB.
const PAGE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Keys longer than this are refused by Stripe.
const IDEMPOTENCY_KEY_MAX_BYTES: usize = 255;

/// Idle connections prove that they live, so that a silently dropped one is noticed before a payment is written to it.
const TCP_KEEPALIVE: Duration = Duration::from_secs(5);

/// What came back, whole.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Why nothing whole came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    NotSent(NotSentReason),
    Unknown(UnknownReason),
}

/// A form to post, and the key under which the provider remembers its answer, where it should.
pub(super) struct Form<'a> {
    pub(super) idempotency_key: Option<&'a str>,
    pub(super) body: Vec<u8>,
}

/// The pooled connections to one provider.
pub(super) struct Http {
    client: Client,
    base_url: Url,
}

impl Http {
    pub(super) fn new(config: &StripeConfig) -> Result<Self, StripeConfigError> {
        check_base_url(&config.base_url)?;
        if config.connect_timeout.is_zero() || config.connect_timeout >= config.request_timeout {
            return Err(StripeConfigError::Timeouts);
        }
        let mut builder = Client::builder()
            .default_headers(headers(config)?)
            .user_agent(concat!("payonce/", env!("CARGO_PKG_VERSION")))
            .timeout(config.request_timeout)
            .connect_timeout(config.connect_timeout)
            .pool_max_idle_per_host(config.idle_connections_max)
            .pool_idle_timeout(config.idle_timeout)
            .tcp_keepalive(TCP_KEEPALIVE)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .http1_only();
        if config.base_url.scheme() == "http" {
            // Without this a machine that has no root certificates could not even talk to the sandbox.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|_the_setting_is_named| StripeConfigError::Client)?;
        Ok(Self { client, base_url: config.base_url.clone() })
    }

    /// `GET /v1/{path…}`.
    pub(super) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Reply, Silence> {
        let mut url = self.url(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        exchange(self.client.request(Method::GET, url), ANSWER_MAX_BYTES).await
    }

    /// `GET /v1/{list}`: a page, whose answer is longer than others.
    pub(super) async fn page(&self, list: &str, query: &[(&str, String)]) -> Result<Reply, Silence> {
        let mut url = self.url(&[list])?;
        url.query_pairs_mut().extend_pairs(query);
        exchange(self.client.request(Method::GET, url), PAGE_MAX_BYTES).await
    }

    /// `POST /v1/{path…}`.
    pub(super) async fn post(&self, path: &[&str], form: Form<'_>) -> Result<Reply, Silence> {
        let url = self.url(path)?;
        let mut request = self
            .client
            .request(Method::POST, url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(key) = form.idempotency_key {
            request = request.header(HeaderName::from_static("idempotency-key"), idempotency_key(key)?);
        }
        exchange(request.body(form.body), ANSWER_MAX_BYTES).await
    }

    fn url(&self, path: &[&str]) -> Result<Url, Silence> {
        let mut url = self.base_url.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().push("v1").extend(path);
            }
            Err(()) => return Err(Silence::NotSent(NotSentReason::NotBuilt)),
        }
        Ok(url)
    }
}

fn check_base_url(url: &Url) -> Result<(), StripeConfigError> {
    let fits = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if fits { Ok(()) } else { Err(StripeConfigError::BaseUrl) }
}

fn headers(config: &StripeConfig) -> Result<HeaderMap, StripeConfigError> {
    let key = config.secret_key.expose();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(StripeConfigError::SecretKey);
    }
    let mut bearer = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_its_text_would_hold_the_key| StripeConfigError::SecretKey)?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(HeaderName::from_static("stripe-version"), HeaderValue::from_static(STRIPE_VERSION));
    Ok(headers)
}

fn idempotency_key(key: &str) -> Result<HeaderValue, Silence> {
    let fits =
        !key.is_empty() && key.len() <= IDEMPOTENCY_KEY_MAX_BYTES && key.bytes().all(|byte| byte.is_ascii_graphic());
    match HeaderValue::from_str(key) {
        Ok(value) if fits => Ok(value),
        Ok(_) | Err(_) => Err(Silence::NotSent(NotSentReason::NotBuilt)),
    }
}

async fn exchange(request: reqwest::RequestBuilder, max_bytes: usize) -> Result<Reply, Silence> {
    let mut response = request.send().await.map_err(|error| silence_before_the_head(&error))?;
    let status = response.status().as_u16();
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| silence_within_the_answer(&error))? {
        if body.len() + chunk.len() > max_bytes {
            return Err(Silence::Unknown(UnknownReason::Unreadable));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, body: body.freeze() })
}

/// Why there is no status line. The order matters: a connection that could not be made in time is both a connect error and a
/// time-out, and it is the former that proves something.
fn silence_before_the_head(error: &reqwest::Error) -> Silence {
    let silence = if error.is_connect() {
        Silence::NotSent(NotSentReason::NotConnected)
    } else if error.is_builder() {
        Silence::NotSent(NotSentReason::NotBuilt)
    } else if error.is_timeout() {
        Silence::Unknown(UnknownReason::TimedOut)
    } else {
        Silence::Unknown(UnknownReason::ConnectionLost)
    };
    tracing::debug!(?silence, cause = ?root_cause(error), "provider gave no answer");
    silence
}

/// Why the answer has no end. By now the provider has acted.
fn silence_within_the_answer(error: &reqwest::Error) -> Silence {
    let reason = if error.is_timeout() { UnknownReason::TimedOut } else { UnknownReason::ConnectionLost };
    tracing::debug!(%reason, cause = ?root_cause(error), "provider's answer broke off");
    Silence::Unknown(reason)
}

/// The innermost error's text, e.g. "Connection refused (os error 111)": what an operator needs. The outer ones would only
/// add the address.
fn root_cause(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Some(cause.to_string())
}
