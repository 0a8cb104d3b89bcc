//! API keys: who may call the API for programs.
//!
//! A key is shown once, when it is made. Only its hash is stored, and no `Debug` or log shows it. Revoking is for ever.

mod store;

use std::fmt;

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Ctx,
    ids::{Ids, InvalidId, TOKEN_ALPHABET},
    limits::{Limits, MAX_API_KEY_NAME_BYTES},
    pool::{Pool, StoreError, keyed},
};

/// What every key begins with, so that people and scanners for leaked secrets recognise one.
const PREFIX: &str = "payonce_";

/// 32 characters of base 62 hold 190 bits: nothing to guess from, so that a fast hash keeps them as safe as a slow one would.
const SECRET_LENGTH: usize = 32;

/// How much of a key its list shows.
const HINT_LENGTH: usize = PREFIX.len() + 4;

/// An API key itself. Never shows itself in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeySecret(String);

impl ApiKeySecret {
    /// Parses what a program sends: the prefix and 32 characters of base 62.
    ///
    /// # Errors
    /// For everything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let is_key = text.strip_prefix(PREFIX).is_some_and(|secret| {
            secret.len() == SECRET_LENGTH && secret.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if is_key { Ok(Self(text.to_owned())) } else { Err(InvalidId { kind: "API key" }) }
    }

    /// The key, for the one moment in which it is shown.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored, and looked up by: an index finds a hash in the same time whichever key was sent.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }

    fn hint(&self) -> &str {
        &self.0[..HINT_LENGTH]
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKeySecret(…)")
    }
}

/// The name of an API key for machines. No secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApiKeyId(pub(crate) Uuid);

impl ApiKeyId {
    /// Parses an id: a UUID.
    ///
    /// # Errors
    /// For everything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        Uuid::try_parse(text).map(Self).or(Err(InvalidId { kind: "API key id" }))
    }

    /// The UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What is known of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// For machines.
    pub id: ApiKeyId,
    /// For people: which program has it.
    pub name: String,
    /// Its beginning.
    pub hint: String,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// Since when it opens nothing.
    pub revoked_at: Option<OffsetDateTime>,
}

/// Why no API key was made.
#[derive(Debug, thiserror::Error)]
pub enum CreateApiKeyError {
    /// Empty, too long, or with control characters.
    #[error("the name of an API key has 1 to {MAX_API_KEY_NAME_BYTES} bytes and no control characters")]
    Name,
    /// The database cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a key. This is the only moment in which it is known.
///
/// # Errors
/// See [`CreateApiKeyError`].
pub async fn create(pool: &Pool, ids: &Ids, name: &str) -> Result<(ApiKeyId, ApiKeySecret), CreateApiKeyError> {
    let name = name.trim();
    if name.is_empty() || name.len() > MAX_API_KEY_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(CreateApiKeyError::Name);
    }
    let id = ApiKeyId(ids.intent().as_uuid());
    let secret = ApiKeySecret(format!("{PREFIX}{}", ids.pick(TOKEN_ALPHABET, SECRET_LENGTH)));
    let (hash, hint) = (secret.hash(), secret.hint());
    let run = || store::insert(pool, id, name, hint, &hash);
    keyed(&Limits::default(), run).await.map_err(StoreError::from)?;
    Ok((id, secret))
}

/// The keys, newest first, revoked ones too.
///
/// # Errors
/// When the database cannot answer.
pub async fn list(pool: &Pool) -> Result<Vec<ApiKey>, StoreError> {
    Ok(keyed(&Limits::default(), || store::list(pool)).await?)
}

/// Revokes a key for ever. Returns whether there is such a key; revoking it again changes nothing.
///
/// # Errors
/// When the database cannot answer.
pub async fn revoke(pool: &Pool, id: ApiKeyId) -> Result<bool, StoreError> {
    Ok(keyed(&Limits::default(), || store::revoke(pool, id)).await?)
}

/// Whose key this is, if it is a key that is not revoked.
///
/// # Errors
/// When the database cannot answer.
pub async fn find_live(ctx: &Ctx, hash: &[u8; 32]) -> Result<Option<ApiKeyId>, StoreError> {
    Ok(keyed(&ctx.limits, || store::find_live(&ctx.pool, hash)).await?.map(ApiKeyId))
}

#[cfg(test)]
mod tests {
    use super::ApiKeySecret;

    const KEY: &str = "payonce_0123456789abcdefghijABCDEFGHIJ01";

    #[test]
    fn a_key_has_one_spelling_and_does_not_show_itself() {
        let key = ApiKeySecret::parse(KEY).expect("a key");
        assert!(!format!("{key:?}").contains("0123"));
        assert_eq!(key.hint(), "payonce_0123");
        for text in ["", "payonce_", &KEY[1..], &KEY[..39], &format!("{KEY}1"), &KEY.replace('a', "-"), "payonce_é"] {
            assert!(ApiKeySecret::parse(text).is_err(), "{text}");
        }
    }
}
