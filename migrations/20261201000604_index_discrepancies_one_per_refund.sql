-- no-transaction
-- A difference about a refund is told once.
create unique index concurrently discrepancies_one_per_refund on discrepancies (kind, refund) where refund is not null;
