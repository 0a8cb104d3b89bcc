//! The domain against a real Postgres and a provider that misbehaves on demand.
//!
//! Each test has its own database (`#[sqlx::test]`, so `DATABASE_URL` must name a server). It acts through the crate's public
//! doors only; rows are read to check, never edited. Names that begin with `b` or `pitfall_` and a number refer to the
//! catalogue of faults seen in real checkouts.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bank;
mod books;
mod clock_jumps;
mod cost;
mod crash;
mod deadline;
mod expire;
mod expire_races;
mod fake;
mod first_again_other;
mod money_that_does_not_fit;
mod notices;
mod order_free;
mod orders;
mod previous_release;
mod purge;
mod rivals;
mod schema;
mod statements_fail;
mod support;
mod unknown;
mod who_tells_first;
