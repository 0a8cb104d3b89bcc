-- Serves news from the provider, which name its payment intent and no intent of ours. Not `concurrently`: replicas that start
-- together wait for the migrator's lock, and the building of the index would wait for them.
create index intents_by_payment_intent on intents (provider_payment_intent);
