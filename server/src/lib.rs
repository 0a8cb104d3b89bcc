//! The server: wires pages, domain and provider together. The way of a payment through it: [`web`] → [`port`] → `payments`.

pub mod api_keys;
pub mod boot;
pub mod config;
pub mod guard;
pub mod port;
pub mod shop;
pub mod telemetry;
pub mod web;
pub mod worker;
