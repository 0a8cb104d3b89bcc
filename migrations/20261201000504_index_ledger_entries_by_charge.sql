-- no-transaction
-- Becomes the constraint of the same promise: an entry may be taken back once.
create unique index concurrently ledger_entries_of_charge_once_each_way on ledger_entries (charge, account, reverses);
