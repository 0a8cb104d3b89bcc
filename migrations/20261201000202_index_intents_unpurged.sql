-- no-transaction
-- Serves the purge: final intents that are not purged yet, the oldest first. Purged ones leave it.
create index concurrently intents_unpurged on intents (finished_at)
where finished_at is not null and purged_at is null;
