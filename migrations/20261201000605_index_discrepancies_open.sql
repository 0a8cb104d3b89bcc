-- no-transaction
-- Serves the look at what is still open, the longest unchecked first, and the report of it.
create index concurrently discrepancies_open on discrepancies (checked_at nulls first, id) where resolved_at is null;
