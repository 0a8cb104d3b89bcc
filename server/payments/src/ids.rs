//! Names of things, each a type of its own, and where new ones come from.
//!
//! Parsing is strict: one spelling, one id. Nothing here guesses what somebody may have meant.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::{Builder, Uuid, Variant};

use crate::limits::MAX_EMAIL_BYTES;

/// The text is not of the form that this kind of name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {kind}")]
pub struct InvalidId {
    /// What it should have been.
    pub kind: &'static str,
}

/// An order. Told to the provider; no capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(pub(crate) Uuid);

impl OrderId {
    /// Parses the id of an order: a UUID of 36 characters with hyphens.
    ///
    /// # Errors
    /// For everything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        hyphenated(text).map(Self).ok_or(InvalidId { kind: "order" })
    }

    /// The UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A checkout intent, as the client minted it: version 4, RFC variant, 36 characters with hyphens, in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntentId(pub(crate) Uuid);

impl IntentId {
    /// Parses the idempotency key of a payment.
    ///
    /// # Errors
    /// For everything but the one form: braces, missing hyphens, spaces, `urn:uuid:`, nil, and other versions.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        hyphenated(text)
            .filter(|id| id.get_version_num() == 4 && id.get_variant() == Variant::RFC4122)
            .map(Self)
            .ok_or(InvalidId { kind: "intent" })
    }

    /// The UUID that stands for a thing of the provider's, and for nothing else: the same for the same thing, whoever derives it.
    /// It has the form of one that a client minted.
    pub(crate) fn derived(of: &str, name: &str) -> Self {
        let hash = Sha256::new().chain_update(of).chain_update(":").chain_update(name).finalize();
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(hash).for_each(|(byte, of_hash)| *byte = of_hash);
        Self(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The UUID of a payment that was lost and is brought back from its charge: the same whoever does it, and no client's.
    pub(crate) fn of_recovered(charge: &str) -> Self {
        let [bytes @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
            <[u8; 32]>::from(Sha256::digest(format!("payonce:recovered:{charge}")));
        Self(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for IntentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A cart of one browser. Known to that browser only; the idempotency key of its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CartId(pub(crate) Uuid);

impl CartId {
    /// Parses a cart's UUID: version 4, RFC variant, 36 characters with hyphens.
    ///
    /// # Errors
    /// For everything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        IntentId::parse(text).map(|id| Self(id.0)).or(Err(InvalidId { kind: "cart" }))
    }

    /// The UUID under which the same cart goes on when its order has closed. Always the same one, so that two clicks, or two
    /// tabs, still make one order.
    #[must_use]
    pub fn successor(self) -> Self {
        let hash: [u8; 32] = Sha256::digest(format!("cart/1 {self}")).into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Self(Builder::from_random_bytes(bytes).into_uuid())
    }

    /// The UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for CartId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Exactly 36 characters with hyphens; the parser of the `uuid` crate takes braces and missing hyphens too.
fn hyphenated(text: &str) -> Option<Uuid> {
    if text.len() == 36 { Uuid::try_parse(text).ok() } else { None }
}

/// Characters of a token: base 62, so that it survives every address bar and double click.
pub(crate) const TOKEN_ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// 22 characters of base 62 hold 131 bits.
const TOKEN_LENGTH: usize = 22;

/// The capability to see and pay an order: 22 characters of base 62. Never shows itself in `Debug`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OrderToken(String);

impl OrderToken {
    /// Parses a token from an address.
    ///
    /// # Errors
    /// When it does not have exactly 22 characters of base 62.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        if text.len() == TOKEN_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { kind: "order token" })
        }
    }

    /// The token, for addresses; never for logs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OrderToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OrderToken(…)")
    }
}

/// Characters of a reference: no 0, 1, I, L, O, U, which people misread, mistype or take offence at in company.
const REFERENCE_ALPHABET: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";

/// An order's name for people, e.g. `AB23-CD45`. No capability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference(String);

impl Reference {
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Stable name of a product: lower-case letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sku(String);

impl Sku {
    /// Parses a SKU.
    ///
    /// # Errors
    /// When it is empty, longer than 40, or has other characters.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=40).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { kind: "SKU" })
        }
    }

    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sku {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The payer's e-mail address: something, an at sign, something, no spaces or control characters. Whether it can be delivered
/// to only a delivery tells.
#[derive(Clone, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// Parses an address; spaces around it are a slip of the finger and dropped.
    ///
    /// # Errors
    /// When it cannot be an address.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let text = text.trim();
        let fits = text.len() <= MAX_EMAIL_BYTES && !text.chars().any(|c| c.is_control() || c.is_whitespace());
        match text.rsplit_once('@') {
            Some((name, host)) if fits && !name.is_empty() && !host.is_empty() => Ok(Self(text.to_owned())),
            Some(_) | None => Err(InvalidId { kind: "e-mail address" }),
        }
    }

    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Email(…)")
    }
}

/// Where new names come from.
#[derive(Clone, Debug)]
pub struct Ids(Source);

#[derive(Clone, Debug)]
enum Source {
    Secure,
    Seeded(Arc<Mutex<StdRng>>),
}

impl Ids {
    /// Names that nobody can guess: from the operating system's generator, by way of a cryptographic one per thread.
    pub fn secure() -> Self {
        Self(Source::Secure)
    }

    /// The same names in every run; for tests.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// A new intent's UUID, for a page to carry.
    pub fn intent(&self) -> IntentId {
        IntentId(Builder::from_random_bytes(self.bytes()).into_uuid())
    }

    /// A new cart's UUID.
    pub fn cart(&self) -> CartId {
        CartId(self.intent().0)
    }

    /// A new order's UUID, version 7: rows of one time lie together in the indexes.
    pub(crate) fn order(&self, now: OffsetDateTime) -> OrderId {
        let millis = u64::try_from(now.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
        let [random @ .., _, _, _, _, _, _] = self.bytes::<16>();
        OrderId(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    pub(crate) fn order_token(&self) -> OrderToken {
        OrderToken(self.pick(TOKEN_ALPHABET, TOKEN_LENGTH))
    }

    pub(crate) fn reference(&self) -> Reference {
        let text = self.pick(REFERENCE_ALPHABET, 8);
        let (left, right) = text.split_at(4);
        Reference(format!("{left}-{right}"))
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match &self.0 {
            Source::Secure => rand::rng().fill_bytes(&mut bytes),
            Source::Seeded(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut bytes),
        }
        bytes
    }

    /// `length` characters of `alphabet`, drawn evenly.
    pub(crate) fn pick(&self, alphabet: &[u8], length: usize) -> String {
        let one = |rng: &mut dyn rand::Rng| char::from(alphabet[rng.random_range(0..alphabet.len())]);
        match &self.0 {
            Source::Secure => {
                let mut rng = rand::rng();
                (0..length).map(|_| one(&mut rng)).collect()
            }
            Source::Seeded(rng) => {
                let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
                (0..length).map(|_| one(&mut *rng)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
