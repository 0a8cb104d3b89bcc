//! The server: wires pages, domain and provider together. The way of a payment through it: [`serve`] → [`web`] → [`port`] →
//! `payments`.

#![forbid(unsafe_code)]

pub mod api_keys;
pub mod boot;
pub mod config;
pub mod guard;
pub mod open_files;
pub mod port;
pub mod reconcile;
pub mod serve;
pub mod shop;
mod stripe_js;
pub mod telemetry;
mod upkeep;
pub mod web;
pub mod worker;
