//! What single settings look like. Each error continues the sentence that the setting's name begins.

use std::{net::SocketAddr, ops::RangeInclusive, str::FromStr as _, time::Duration};

use payments::provider::stripe::WebhookSecret;
use tracing_subscriber::EnvFilter;
use url::Url;

use super::Secret;
use crate::shop::CardFields;

/// Secrets that may be valid at once: two while one is rotated, and room for a mistake.
const WEBHOOK_SECRETS_MAX: usize = 5;

/// The key that every page shows. Never repeats a value that could be a secret one.
pub fn publishable_key(text: &str) -> Result<String, String> {
    if ["sk_", "rk_", "whsec_"].iter().any(|secret| text.starts_with(secret)) {
        return Err("is a secret key: every page would show it; the publishable one begins with pk_".to_owned());
    }
    Ok(text.to_owned())
}

/// Who shows the fields for the card.
pub fn card_fields(text: &str) -> Result<CardFields, String> {
    match text {
        "own" => Ok(CardFields::Own),
        "element" => Ok(CardFields::Element),
        _ => Err(format!("is {text:?}, which is neither own nor element")),
    }
}

/// `ip:port`, or `localhost:port`, which is where people try things.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    SocketAddr::from_str(&numeric).map_err(|_not_an_address| {
        format!("is {text:?}, which is no address with a port, such as 127.0.0.1:3000 or [::]:3000")
    })
}

/// An address on the web, of an origin or a folder.
pub fn web_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is {text:?}, which is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("is {text:?}, which does not begin with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user, no `?…` and no `#…`".to_owned());
    }
    Ok(url)
}

/// The address of one or several Postgres servers. Never repeats the value, which holds a password.
pub fn postgres_url(text: &str) -> Result<Secret, String> {
    text.parse::<payments::pool::Address>()
        .map(|_address| Secret(text.to_owned()))
        .map_err(|error| format!("{error}, such as postgres://user:password@host:5432/database"))
}

/// A whole number in a range.
pub fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("is {text:?}, which is no whole number from {} to {}", range.start(), range.end()))
}

/// A number of connections.
pub fn connections(text: &str) -> Result<usize, String> {
    number(text, 100..=1_000_000).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// A time in milliseconds.
pub fn milliseconds(text: &str, range: RangeInclusive<u32>) -> Result<Duration, String> {
    number(text, range).map(|milliseconds| Duration::from_millis(milliseconds.into()))
}

/// A time in hours.
pub fn hours(text: &str, range: RangeInclusive<u32>) -> Result<Duration, String> {
    number(text, range).map(|hours| Duration::from_hours(hours.into()))
}

/// How often, in minutes; 0 is never.
pub fn minutes(text: &str, range: RangeInclusive<u32>) -> Result<Option<Duration>, String> {
    number(text, range).map(|minutes| (minutes > 0).then(|| Duration::from_mins(minutes.into())))
}

/// A filter as `tracing` reads it.
pub fn log_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text)
        .map(|_filter| text.to_owned())
        .map_err(|error| format!("is {text:?}, which is no filter such as `info,payments=debug`: {error}"))
}

/// Secrets of the webhook endpoint, with commas between them. Never repeats them.
pub fn webhook_secrets(text: &str) -> Result<Vec<Secret>, String> {
    let sound = |secret: &str| WebhookSecret::parse(secret).map(|_secret| Secret(secret.trim().to_owned()));
    let secrets: Option<Vec<_>> = text.split(',').map(sound).collect();
    secrets.filter(|secrets| secrets.len() <= WEBHOOK_SECRETS_MAX).ok_or_else(|| {
        {
            format!(
                "must be one to {WEBHOOK_SECRETS_MAX} secrets with commas between them, each of whsec_ and at least ten \
                 characters"
            )
        }
    })
}
