-- Expand: programs may pay without an e-mail address, and ask for an intent by its UUID alone.

alter table intents alter column email drop not null;

comment on column intents.email is 'The payer''s e-mail, as sent, else the order''s; null where a program named none';

-- Building the index may take longer than a statement of the server's pool may.
set local statement_timeout = 0;

-- Serves `GET /api/v1/intents/{uuid}`. Not `concurrently`: that waits for every other session, and replicas that start
-- together wait for the migrator's lock, in vain.
create index intents_by_id on intents (id);
