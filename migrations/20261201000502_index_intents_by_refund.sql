-- no-transaction
-- Refuses one refund of the provider's as two of ours, and serves the look-up by it.
create unique index concurrently intents_one_per_refund on intents (provider_refund) where provider_refund is not null;
