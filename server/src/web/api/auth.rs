//! Who calls: the API key of `Authorization: Bearer …`, and how often it may.
//!
//! A key is looked up by its hash, so that the time a look-up takes tells nothing about the key. Looking up costs the address,
//! not the key: guesses and unknown keys are bounded without slowing down a program that is known.

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use payments::api_key::{ApiKeyId, ApiKeySecret};

use super::problem::{Kind, Problem};
use crate::shop::Shop;

/// The program that calls.
pub struct Caller(pub ApiKeyId);

impl FromRequestParts<Shop> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shop: &Shop) -> Result<Self, Problem> {
        let hash = bearer(&parts.headers).map(|secret| secret.hash());
        let known = hash.as_ref().and_then(|hash| shop.guard.callers.find(hash));
        let id = if let Some(id) = known {
            id
        } else {
            shop.guard.admit_address(&parts.extensions, &parts.headers)?;
            look_up(shop, hash).await?
        };
        shop.guard.admit_api_key(id)?;
        Ok(Self(id))
    }
}

async fn look_up(shop: &Shop, hash: Option<[u8; 32]>) -> Result<ApiKeyId, Problem> {
    let unauthorized =
        || Problem::of(Kind::Unauthorized, "Send `Authorization: Bearer` with an API key that is not revoked.");
    let hash = hash.ok_or_else(unauthorized)?;
    let id = payments::api_key::find_live(&shop.ctx, &hash).await?.ok_or_else(unauthorized)?;
    shop.guard.callers.remember(hash, id);
    Ok(id)
}

/// The key, where there is exactly one header and it has the form of one.
fn bearer(headers: &HeaderMap) -> Option<ApiKeySecret> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, key) = only.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { ApiKeySecret::parse(key.trim()).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "payonce_0123456789abcdefghijABCDEFGHIJ01";

    fn is_read(lines: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().expect("a header value"));
        }
        bearer(&headers).is_some()
    }

    #[test]
    fn exactly_one_bearer_key_is_read() {
        assert!(is_read(&[&format!("Bearer {KEY}")]));
        assert!(is_read(&[&format!("bearer  {KEY}")]));
        for lines in [&[][..], &[KEY], &["Bearer"], &["Bearer x"], &["Basic cGF5b25jZQ=="]] {
            assert!(!is_read(lines), "{lines:?}");
        }
        assert!(!is_read(&[&format!("Bearer {KEY}"), &format!("Bearer {KEY}")]));
    }
}
