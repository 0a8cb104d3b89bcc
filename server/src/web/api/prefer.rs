//! `Prefer: wait=N` (RFC 7240): how long a program is willing to wait for an outcome.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Longest wait, in seconds: proxies and clients commonly give up after as much.
const WAIT_SECONDS_MAX: u64 = 30;

const PREFER: HeaderName = HeaderName::from_static("prefer");
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The wait that is wished for, as it is granted. What cannot be read is no wish, as the RFC has it; of several, the first.
pub fn wait(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    let wish = preferences.flat_map(|line| line.split(',')).find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let is_wait = name.trim().eq_ignore_ascii_case("wait");
        is_wait.then(|| value.trim().trim_matches('"').parse::<u64>().ok())
    });
    wish.flatten().map(|seconds| Duration::from_secs(seconds.min(WAIT_SECONDS_MAX)))
}

/// `Preference-Applied: wait=N`.
pub fn applied(wait: Duration) -> HeaderValue {
    let text = format!("wait={}", wait.as_secs());
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("wait"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, line.parse().expect("a header value"));
        }
        wait(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_wish_is_granted_up_to_the_longest_wait() {
        assert_eq!(check(&["wait=5"]), Some(5));
        assert_eq!(check(&["respond-async, Wait = \"7\"; x=1"]), Some(7));
        assert_eq!(check(&["return=minimal", "wait=0"]), Some(0));
        assert_eq!(check(&["wait=3600"]), Some(30));
        assert_eq!(check(&["wait=4, wait=9"]), Some(4));
    }

    #[test]
    fn what_cannot_be_read_is_no_wish() {
        for line in ["", "wait", "wait=", "wait=-1", "wait=1.5", "wait=soon", "waiting=5", "wait=99999999999999999999"]
        {
            assert_eq!(check(&[line]), None, "{line}");
        }
        assert_eq!(check(&[]), None);
    }
}
