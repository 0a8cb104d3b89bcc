//! Identifiers as the provider shapes them: a prefix that names the kind, then 24 random letters and digits (142 bits),
//! so that an id is also the capability to see its bank page.

use rand::RngExt as _;
use rand::distr::Alphanumeric;

const RANDOM_LENGTH: usize = 24;

/// A fresh id, e.g. `new("pi")` gives `pi_4f…`.
pub fn new(prefix: &str) -> String {
    format!("{prefix}_{}", random())
}

/// What follows the prefix of an id; also the secret half of a client secret.
pub fn random() -> String {
    rand::rng().sample_iter(Alphanumeric).take(RANDOM_LENGTH).map(char::from).collect()
}
