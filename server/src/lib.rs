//! The server: wires pages, domain and provider together. The way of a payment through it: [`web`] → [`port`] → `payments`.

pub mod boot;
pub mod config;
pub mod port;
pub mod shop;
pub mod telemetry;
pub mod web;
pub mod worker;
