//! What both sides of the wire share, and the pages.
//!
//! Reading order: [`dto`] (what crosses the wire) → [`error`] → `port` (the only door to the domain, server only) → [`api`]
//! (the server functions) → [`intent`] (the client's half of the protocol) → [`islands`] (what runs in the browser) →
//! `pages` (server only). This crate knows no database, no secret and no provider.

#![forbid(unsafe_code)]

pub mod api;
pub mod dto;
pub mod error;
pub mod fields;
pub mod intent;
pub mod islands;
pub mod text;

#[cfg(feature = "ssr")]
mod components;
#[cfg(feature = "ssr")]
mod pages;
#[cfg(feature = "ssr")]
pub mod port;
#[cfg(feature = "ssr")]
mod shell;

#[cfg(feature = "ssr")]
pub use components::Storefront;
#[cfg(feature = "ssr")]
pub use shell::{App, problem_document, shell};
