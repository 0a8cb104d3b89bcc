-- no-transaction
-- Serves the reconciliation: what we say was charged, in the order in which it is compared with the provider's list.
create index concurrently intents_paid_in_order on intents (paid_at, charge collate "C")
where operation = 'pay' and charge is not null;
