//! Signs what is sent to an endpoint, as the provider does: `t=<seconds>,v1=<HMAC-SHA-256 of "t.body" in hexadecimal>`, one
//! `v1` for each secret that is valid, and forges on demand. Pure; it never logs a secret.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Older than any tolerance.
const LONG_AGO_SECONDS: i64 = 3600;

/// How a delivery's signature is spoilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    /// Signed with a secret that is not the endpoint's.
    #[default]
    WrongSecret,
    /// The last digit of the signature is another one.
    BadSignature,
    /// The body is another one than was signed.
    AlteredBody,
    /// Rightly signed an hour ago.
    OldTimestamp,
    /// Rightly signed an hour ahead.
    FutureTimestamp,
    /// The time in the header is another one than was signed.
    AlteredTimestamp,
    /// No header at all.
    NoHeader,
    /// A header with nothing in it.
    EmptyHeader,
    /// A header without a time.
    NoTimestamp,
    /// A right signature under a scheme that is not to be trusted.
    OtherScheme,
    /// The signature in Base64 instead of hexadecimal.
    Base64Like,
    /// A right signature that is cut short.
    ShortSignature,
}

/// What is put on the wire.
#[derive(Debug, PartialEq, Eq)]
pub struct Signed {
    pub header: Option<String>,
    pub body: String,
}

/// Signs a body with every secret at an instant in seconds.
pub fn sign<'a>(body: &str, secrets: impl Iterator<Item = &'a str>, now: i64, forgery: Option<Forgery>) -> Signed {
    let at = match forgery {
        Some(Forgery::OldTimestamp) => now - LONG_AGO_SECONDS,
        Some(Forgery::FutureTimestamp) => now + LONG_AGO_SECONDS,
        Some(_) | None => now,
    };
    let macs: Vec<String> = secrets
        .map(|secret| match forgery {
            Some(Forgery::WrongSecret) => mac("whsec_of_somebody_else", at, body),
            Some(_) | None => mac(secret, at, body),
        })
        .collect();
    let with = |scheme: &str, macs: &[String]| {
        let schemes = macs.iter().map(|mac| format!(",{scheme}={mac}"));
        format!("t={at}{}", schemes.collect::<String>())
    };
    let each = |change: fn(&str) -> String| macs.iter().map(|mac| change(mac)).collect::<Vec<_>>();
    let header = match forgery {
        Some(Forgery::NoHeader) => None,
        Some(Forgery::EmptyHeader) => Some(String::new()),
        Some(Forgery::NoTimestamp) => Some(with("v1", &macs).split_once(',').map_or("", |(_, rest)| rest).to_owned()),
        Some(Forgery::OtherScheme) => Some(with("v0", &macs)),
        Some(Forgery::Base64Like) => {
            Some(with("v1", &each(|mac| format!("{}=", mac.to_uppercase().replace('0', "+")))))
        }
        Some(Forgery::ShortSignature) => Some(with("v1", &each(|mac| mac.chars().take(32).collect()))),
        Some(Forgery::BadSignature) => Some(with("v1", &each(other_last_digit))),
        Some(Forgery::AlteredTimestamp) => {
            Some(with("v1", &macs).replacen(&format!("t={at}"), &format!("t={}", at + 1), 1))
        }
        Some(Forgery::WrongSecret | Forgery::AlteredBody | Forgery::OldTimestamp | Forgery::FutureTimestamp) | None => {
            Some(with("v1", &macs))
        }
    };
    // One space more is the same JSON, and other bytes.
    let body = if forgery == Some(Forgery::AlteredBody) { format!("{body} ") } else { body.to_owned() };
    Signed { header, body }
}

fn mac(secret: &str, at: i64, body: &str) -> String {
    // A key of any length fits this MAC; without one nothing would verify, which is safe.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(at.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn other_last_digit(mac: &str) -> String {
    let mut digits = mac.to_owned();
    let other = if digits.pop() == Some('0') { '1' } else { '0' };
    digits.push(other);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2 ("Jefe"), has no time in front; this one was made with `openssl dgst -sha256 -hmac`.
    #[test]
    fn a_signature_is_the_one_that_openssl_makes() {
        let signed = sign("{\"id\":\"evt_1\"}", ["whsec_test"].into_iter(), 1_700_000_000, None);
        assert_eq!(signed.header.as_deref(), Some(EXPECTED));
    }

    const EXPECTED: &str = "t=1700000000,v1=c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925";

    #[test]
    fn every_secret_signs() {
        let header = sign("{}", ["a", "b"].into_iter(), 7, None).header.unwrap();
        let parts: Vec<&str> = header.split(',').collect();
        assert_eq!(parts, ["t=7", &format!("v1={}", mac("a", 7, "{}")), &format!("v1={}", mac("b", 7, "{}"))]);
    }

    #[test]
    fn no_forgery_verifies() {
        let right = sign("{}", ["a"].into_iter(), 10_000, None);
        for forgery in [
            Forgery::WrongSecret,
            Forgery::BadSignature,
            Forgery::AlteredBody,
            Forgery::OldTimestamp,
            Forgery::FutureTimestamp,
            Forgery::AlteredTimestamp,
            Forgery::NoHeader,
            Forgery::EmptyHeader,
            Forgery::NoTimestamp,
            Forgery::OtherScheme,
            Forgery::Base64Like,
            Forgery::ShortSignature,
        ] {
            assert_ne!(sign("{}", ["a"].into_iter(), 10_000, Some(forgery)), right, "{forgery:?}");
        }
    }
}
