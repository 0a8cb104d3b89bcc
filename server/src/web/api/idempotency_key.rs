//! The `Idempotency-Key` header, as the draft of the IETF has it: a string in quotes, or bare as most programs send it.
//!
//! `"abc"` and `abc` are the same key. What could be read in two ways is refused: two headers, or bare characters that a proxy
//! which joins headers, or a reader of structured fields, would take for something else.

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, request::Parts};

use super::problem::{Kind, Problem};
use crate::shop::Shop;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of a request, without quotes.
pub struct KeyHeader(pub String);

impl FromRequestParts<Shop> for KeyHeader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _shop: &Shop) -> Result<Self, Problem> {
        key_of(&parts.headers).map(Self)
    }
}

/// The one answer to every malformed key; the key itself is not repeated.
pub fn malformed(detail: &str) -> Problem {
    Problem::of(Kind::KeyMalformed, detail)
}

fn key_of(headers: &HeaderMap) -> Result<String, Problem> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let only = match (all.next(), all.next()) {
        (None, _) => return Err(Problem::of(Kind::KeyMissing, "Send an `Idempotency-Key` header with every POST.")),
        (Some(only), None) => only,
        (Some(_), Some(_)) => return Err(malformed("Send the `Idempotency-Key` header once.")),
    };
    let form = "An `Idempotency-Key` has 1 to 255 printable characters of ASCII, in double quotes or bare; bare, it has \
                neither spaces nor any of `\"`, `,`, `;` and `\\`.";
    let text = only.to_str().or(Err(malformed(form)))?;
    let key = match text.strip_prefix('"') {
        Some(rest) => unquoted(rest),
        None => Some(text.to_owned()).filter(|text| !text.contains([' ', '\t', '"', ',', ';', '\\'])),
    };
    key.filter(|key| (1..=255).contains(&key.len())).ok_or_else(|| malformed(form))
}

/// The rest of a quoted string after its opening quote (RFC 8941, 3.3.3), and nothing behind it.
fn unquoted(rest: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return characters.next().is_none().then_some(key),
            '\\' => key.push(characters.next().filter(|next| matches!(next, '"' | '\\'))?),
            plain @ ' '..='~' => key.push(plain),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(lines: &[&[u8]]) -> Result<String, Kind> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).expect("a header value"));
        }
        key_of(&headers).map_err(|problem| problem.kind)
    }

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        for (sent, key) in [
            (&b"abc-123"[..], "abc-123"),
            (b"\"abc-123\"", "abc-123"),
            (b"\"a b, c; d\"", "a b, c; d"),
            (b"\"say \\\"x\\\" \\\\\"", "say \"x\" \\"),
            (b"!#$%&'*+./:<=>?@[]^_`{|}~", "!#$%&'*+./:<=>?@[]^_`{|}~"),
        ] {
            assert_eq!(check(&[sent]), Ok(key.to_owned()));
        }
        assert_eq!(check(&["a".repeat(255).as_bytes()]).map(|key| key.len()), Ok(255));
    }

    #[test]
    fn what_is_no_key_or_two_is_refused() {
        assert_eq!(check(&[]), Err(Kind::KeyMissing));
        let long = "a".repeat(256);
        for sent in [
            &b""[..],
            b" ",
            b"\"\"",
            b"\"",
            b"\"abc",
            b"abc\"",
            b"\"abc\" ",
            b"\"abc\"x",
            b"\"abc\";p=1",
            b"\"a\\n\"",
            b"a b",
            b"k1, k2",
            b"k\xc3\xa9y",
            b"\"k\xc3\xa9y\"",
            b"a\tb",
            long.as_bytes(),
        ] {
            assert_eq!(check(&[sent]), Err(Kind::KeyMalformed), "{}", String::from_utf8_lossy(sent));
        }
        assert_eq!(check(&[b"k1", b"k2"]), Err(Kind::KeyMalformed));
        assert_eq!(check(&[b"k1", b"k1"]), Err(Kind::KeyMalformed));
    }
}
