//! What a shop that takes real payments must not start with.
//!
//! Promise: keys that could only fail at the first customer, or move real money by mistake, stop the start. Never repeats one.

use super::{Provider, Settings};
use crate::{shop::CardFields, stripe_js};

impl Provider {
    /// Whether it is Stripe itself.
    pub(super) fn is_stripe(&self) -> bool {
        matches!(self, Self::Url(url) if url.host_str() == Some(stripe_js::API_HOST))
    }
}

/// What is wrong, one sentence each. `is_set` tells whether a variable was given.
pub(super) fn problems(settings: &Settings, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let keys = [settings.provider_secret_key.expose(), settings.provider_publishable_key.as_str()];
    let [secret_is_live, public_is_live] = keys.map(is_live);
    if secret_is_live != public_is_live {
        problems.push(
            "PAYONCE_PROVIDER_SECRET_KEY and PAYONCE_PROVIDER_PUBLISHABLE_KEY: one is a live key, the other is not"
                .to_owned(),
        );
    }
    let Provider::Url(url) = &settings.provider else {
        if secret_is_live || public_is_live {
            let problem = "PAYONCE_PROVIDER_URL must be set with live keys, which are not for the sandbox; Stripe's API is \
                           https://api.stripe.com";
            problems.push(problem.to_owned());
        }
        return problems;
    };
    // The default keys are the sandbox's.
    for key in ["PAYONCE_PROVIDER_SECRET_KEY", "PAYONCE_PROVIDER_PUBLISHABLE_KEY"] {
        if url.scheme() == "https" && !is_set(key) {
            problems.push(format!("{key} must be set, since PAYONCE_PROVIDER_URL names a provider of your own"));
        }
    }
    if settings.provider.is_stripe() {
        if url.scheme() != "https" {
            problems.push("PAYONCE_PROVIDER_URL must begin with https:// for Stripe".to_owned());
        }
        if settings.card_fields == CardFields::Own {
            problems.push("PAYONCE_CARD_FIELDS is own, but Stripe takes cards from its own fields only".to_owned());
        }
    }
    problems
}

/// Stripe's keys say so themselves: `sk_live_…`, `rk_live_…`, `pk_live_…`.
fn is_live(key: &str) -> bool {
    key.get(2..).is_some_and(|rest| rest.starts_with("_live_"))
}
