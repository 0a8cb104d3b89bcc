-- no-transaction
-- Serves the reconciliation: our refunds, in the order of their making.
create index concurrently intents_refunds_in_order on intents (created_at, id) where operation = 'refund';
