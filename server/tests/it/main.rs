//! The shop as a whole: real Postgres, the real sandbox provider over HTTP, one or more replicas in this process.
//!
//! Every test has a database of its own. Names are promises; `b…` and `pitfall_…` are numbers in a catalogue of faults that
//! real checkouts have shown. Each test that pays ends with [`House::assert_books_balance`].
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where, and stop")]

mod api;
mod bad_input;
mod card_fields;
mod cart_and_order;
mod database;
mod database_goes_away;
mod deadline;
mod deliveries;
mod house;
mod lost_answers;
mod lost_commits;
mod missed_events;
mod news;
mod odd_requests;
mod outage;
mod pages;
mod parsers;
mod pay;
mod pitfalls;
mod purge;
mod raw;
mod reconcile;
mod reconcile_fails;
mod repeats;
mod restored;
mod security;
mod slow_clients;
mod stopping;
mod tidy;
mod unpaid_orders;
mod webhooks;
