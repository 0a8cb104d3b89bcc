-- no-transaction
-- Serves `GET /api/v1/intents/{uuid}`: a program asks for an intent by its UUID alone.
create index concurrently intents_by_id on intents (id);
