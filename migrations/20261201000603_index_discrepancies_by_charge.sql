-- no-transaction
-- Serves the telling of a difference once, and the look whether money that was doubted is booked by now.
create index concurrently discrepancies_by_charge on discrepancies (charge);
