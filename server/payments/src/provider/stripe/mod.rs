//! The one adapter: the Stripe API, spoken by Stripe itself and by the sandbox.
