//! Names that the provider gave to things, each a type of its own.
//!
//! Promise: an id that exists is short, printable and safe as one segment of a path, whoever it came from. What opens
//! something (a payment method, a bank page) never shows itself in `Debug`.

use std::fmt;

use url::Url;

/// Longest id that is accepted; Stripe reserves 255 characters.
const ID_MAX_BYTES: usize = 255;

/// The text is no id of the provider's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the provider")]
pub struct InvalidProviderId;

/// Whether `text` may be an id: 1–255 of letters, digits, `_` and `-`, so that it can neither leave its place in a path nor
/// break a header or a log line.
pub(super) fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= ID_MAX_BYTES
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The provider's payment intent; one per order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProviderPaymentIntentId(String);

impl ProviderPaymentIntentId {
    /// Parses an id from the provider or from our own database.
    ///
    /// # Errors
    /// When it has characters that an id cannot have, or is too long.
    pub fn parse(text: &str) -> Result<Self, InvalidProviderId> {
        if is_id(text) { Ok(Self(text.to_owned())) } else { Err(InvalidProviderId) }
    }

    /// The id as the provider wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderPaymentIntentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The provider's charge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProviderChargeId(String);

impl ProviderChargeId {
    /// Parses an id from the provider or from our own database.
    ///
    /// # Errors
    /// When it has characters that an id cannot have, or is too long.
    pub fn parse(text: &str) -> Result<Self, InvalidProviderId> {
        if is_id(text) { Ok(Self(text.to_owned())) } else { Err(InvalidProviderId) }
    }

    /// The id as the provider wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderChargeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The token of a card at the provider. Whoever holds it and the secret key can charge the card, so it never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct PaymentMethodToken(String);

impl PaymentMethodToken {
    /// Parses a token from the provider or the browser.
    ///
    /// # Errors
    /// When it has characters that a token cannot have, or is too long.
    pub fn parse(text: &str) -> Result<Self, InvalidProviderId> {
        if is_id(text) { Ok(Self(text.to_owned())) } else { Err(InvalidProviderId) }
    }

    /// The token itself; for the provider only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PaymentMethodToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PaymentMethodToken(…)")
    }
}

/// Longest address of a bank page that is accepted, as it is stored: escapes make it longer than it was written.
const CONTINUE_URL_MAX_BYTES: usize = 4096;

/// The bank page, where the customer must go next: http or https with a host. Its query can open the payment, so it never
/// shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ContinueUrl(Url);

impl ContinueUrl {
    /// Parses an absolute address.
    ///
    /// # Errors
    /// When it is anything that a browser should not be sent to: another scheme, no host, credentials in it, or too long.
    pub fn parse(text: &str) -> Result<Self, InvalidProviderId> {
        match Url::parse(text) {
            Ok(url)
                if url.as_str().len() <= CONTINUE_URL_MAX_BYTES
                    && matches!(url.scheme(), "http" | "https")
                    && url.has_host()
                    && url.username().is_empty()
                    && url.password().is_none() =>
            {
                Ok(Self(url))
            }
            Ok(_) | Err(_) => Err(InvalidProviderId),
        }
    }

    /// The address; for the customer only.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for ContinueUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ContinueUrl({}, …)", self.0.host_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CONTINUE_URL_MAX_BYTES, ContinueUrl, ProviderPaymentIntentId};

    proptest! {
        /// An id that is taken stays one segment of a path, one header and one word of a log, as it was written.
        #[test]
        fn an_id_that_is_taken_stays_in_its_place(text in prop_oneof![any::<String>(), "[a-z]{2,3}_[A-Za-z0-9_/.%-]{0,260}"]) {
            if let Ok(id) = ProviderPaymentIntentId::parse(&text) {
                prop_assert_eq!(id.as_str(), &text);
                let url = url::Url::parse(&format!("http://provider/v1/{id}/confirm")).expect("an address");
                prop_assert_eq!(url.path_segments().map(Iterator::count), Some(3));
            }
        }

        /// A bank page that is taken is stored, read back as itself, and leads a browser to a host on the web.
        #[test]
        fn a_bank_page_that_is_taken_reads_back_as_itself(
            text in prop_oneof![any::<String>(), "(https?|ftp|javascript)://([a-z]{1,3}(:[a-z])?@)?[a-zé.]{0,9}/\\PC{0,20}", "https://bank\\.example/[aé]{1300,2100}"],
        ) {
            if let Ok(page) = ContinueUrl::parse(&text) {
                prop_assert!(page.as_str().starts_with("http://") || page.as_str().starts_with("https://"), "{text:?}");
                prop_assert!(page.as_str().len() <= CONTINUE_URL_MAX_BYTES, "{} bytes", page.as_str().len());
                prop_assert_eq!(ContinueUrl::parse(page.as_str()), Ok(page));
            }
        }
    }
}
