-- no-transaction
-- Becomes the constraint of the same promise: an entry may be taken back once.
create unique index concurrently ledger_entries_once_each_way
    on ledger_entries (operation, order_id, intent_id, account, reverses);
