//! The sandbox as its clients see it: over HTTP, on a free port, with a journal of its own for each test. The ledger has
//! the last word on what was charged. Nothing here waits for time to pass; everything waits for a signal or an answer.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bank;
mod declines;
mod delivery_faults;
mod disputes;
mod elsewhere;
mod events;
mod faults;
mod harness;
mod hosted;
mod journal;
mod keys;
mod paying;
mod protocol;
mod receiver;
mod refunds;
mod secrecy;
mod webhooks;
mod wire;
