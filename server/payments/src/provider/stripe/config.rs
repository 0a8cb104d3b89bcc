//! How to reach the provider, and with which key.
//!
//! Promise: the secret key is in a type that no `Debug`, log or error ever shows. Never: nothing here reads the environment.

use std::{fmt, time::Duration};

use url::Url;

use super::webhook::WebhookSecret;

/// The whole call, from the first look for a connection to the last byte of the answer. Stripe answers most confirms within
/// two seconds and gives banks longer; ten seconds are what a customer waits before the page says "not known yet".
pub const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Making a connection. Well below the whole call, so that a dead provider is proven *not sent* and not merely *not known*.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3);

/// Idle connections kept for the next call: enough for a busy replica, few enough to be polite.
pub const IDLE_CONNECTIONS_MAX_DEFAULT: usize = 128;

/// How long an idle connection is kept. Shorter than servers commonly keep theirs, since a request that is written to a
/// connection that just closed leaves an outcome that nobody knows.
pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// The secret key. It is exposed in one place only, where the `Authorization` header is made.
#[derive(Clone)]
pub struct SecretKey(String);

impl SecretKey {
    /// Takes the key as it is; [`super::Stripe::new`] refuses one that cannot be sent.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it moves real money: Stripe's own and restricted keys say so in their beginning.
    pub(super) fn is_live(&self) -> bool {
        self.0.starts_with("sk_live_") || self.0.starts_with("rk_live_")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretKey(…)")
    }
}

/// Everything that the adapter needs to know.
#[derive(Clone, Debug)]
pub struct StripeConfig {
    /// Origin of the API, with a path if a gateway adds one; `/v1/…` is appended.
    pub base_url: Url,
    pub secret_key: SecretKey,
    /// Deadline of a whole call.
    pub request_timeout: Duration,
    /// Deadline of making a connection; shorter than `request_timeout`.
    pub connect_timeout: Duration,
    pub idle_connections_max: usize,
    pub idle_timeout: Duration,
    /// Whether the provider counts a few currencies in other units than ISO 4217 does, as Stripe does; see `units.rs`.
    pub zero_decimal_exceptions: bool,
    /// Secrets with which events may be signed; several while they are rotated, none where no events are expected.
    pub webhook_secrets: Vec<WebhookSecret>,
}

impl StripeConfig {
    /// The usual deadlines and Stripe's own units.
    pub fn new(base_url: Url, secret_key: SecretKey) -> Self {
        Self {
            base_url,
            secret_key,
            request_timeout: REQUEST_TIMEOUT_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            idle_connections_max: IDLE_CONNECTIONS_MAX_DEFAULT,
            idle_timeout: IDLE_TIMEOUT_DEFAULT,
            zero_decimal_exceptions: true,
            webhook_secrets: Vec::new(),
        }
    }
}

/// Why the adapter cannot be made. Says which setting is wrong, never its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StripeConfigError {
    /// Another scheme, no host, credentials, a query or a fragment.
    #[error(
        "the provider's address must be http:// or https:// with a host and without user, password, query or fragment"
    )]
    BaseUrl,
    /// Empty, or with characters that a header cannot carry.
    #[error("the provider's secret key is empty or has characters that cannot be sent")]
    SecretKey,
    /// Zero, or the connection may take as long as the whole call.
    #[error("the provider's deadlines must be longer than zero, and the connection's shorter than the whole call's")]
    Timeouts,
    /// The TLS library could not be set up, usually for want of root certificates.
    #[error("no client could be made for the provider; are the system's root certificates installed?")]
    Client,
}
