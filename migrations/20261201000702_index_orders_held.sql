-- no-transaction
-- Serves the timer of unpaid orders: what is held, the oldest first.
create index concurrently orders_held on orders (hold_from) where hold_from is not null;
