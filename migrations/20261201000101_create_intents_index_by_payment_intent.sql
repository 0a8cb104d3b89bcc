-- no-transaction
-- Serves news from the provider, which name its payment intent and no intent of ours.
create index concurrently intents_by_payment_intent on intents (provider_payment_intent);
