//! The domain of Payonce: orders, checkout intents, and the promise that a customer who clicks Pay is charged exactly once
//! and always learns the outcome.
//!
//! # What it promises
//!
//! - At most one charge per intent, and at most one unresolved or paid intent per order, whatever keys clients mint.
//! - No charge request leaves before its reservation is committed ([`pay`]).
//! - Silence is never an outcome: a lost answer is `unknown` until the provider was asked ([`outcome`], [`recover`]).
//! - A final answer is archived in the commit that made it final, and repeated byte for byte ([`intent::archive`]).
//! - A payment costs two statements and two commits, and holds no database connection while the provider works.
//!
//! # The phases of a payment
//!
//! Reserve ([`pay`]: one statement), confirm ([`provider`]: no transaction open), settle ([`settle`]: one statement that
//! moves intent, archive, order, ledger and outbox together). What a crash leaves between them, [`recover`] finishes. Answers that
//! nobody repeats any more, [`purge`] forgets. Money back goes the same way, by an intent of its own ([`refund`]).
//! What nobody told us, [`inbox::missed`] and [`reconcile`] find out.
//!
//! It knows neither HTTP servers nor pages. Everything from outside is parsed before it comes in, and time, names and network
//! come from [`Ctx`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ctx;

pub mod pay;
pub mod settle;

pub mod expire;
pub mod inbox;
pub mod lists;
pub mod notice;
pub mod outcome;
pub mod purge;
mod reading;
pub mod reconcile;
pub mod recover;
pub mod refund;

pub mod api_key;
pub mod catalog;
pub mod order;

pub mod intent;
#[expect(missing_docs, reason = "variants and fields there speak for themselves; the types are documented")]
pub mod provider;

pub mod clock;
pub mod ids;
pub mod limits;
pub mod money;
pub mod pool;
pub mod schema;

pub use ctx::Ctx;
pub use schema::MIGRATOR;
