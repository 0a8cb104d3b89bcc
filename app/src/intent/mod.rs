//! The client protocol: keep one UUID per checkout intent, whatever happens.
//!
//! Reading order: [`machine`] (pure: what happened → what to do) → [`words`] (pure: where it stands → what the page says) →
//! [`retry`] (pure: how long to wait) → [`wire`] (pure: which member of an answer means what) → [`storage`] and [`mint`] (where the UUID is kept and made).

pub mod machine;
pub mod mint;
pub mod retry;
pub mod storage;
pub mod wire;
pub mod words;
