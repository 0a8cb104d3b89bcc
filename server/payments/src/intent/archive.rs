//! Answers, and the archive of those that are final.

use std::borrow::Cow;

use bytes::Bytes;

/// What a client is told, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status: 200 succeeded, 402 failed, 202 pending.
    pub status: u16,
    /// HTTP content type.
    pub content_type: Cow<'static, str>,
    /// HTTP body.
    pub body: Bytes,
}

/// A final answer. Repeated byte for byte for as long as the key lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive(Answer);

impl Archive {
    /// The answer.
    pub fn answer(&self) -> &Answer {
        &self.0
    }
}
