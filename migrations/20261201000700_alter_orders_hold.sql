-- Unpaid orders give their stock back. `hold_from` says from when the hold time counts; its index serves the timer, and its
-- predicate names no column that a payment changes, so that paying an order stays a change of one row and of no index.

alter table orders add column hold_from timestamptz default now();

comment on column orders.hold_from is 'From when the hold time of the unpaid order counts: the beginning of the checkout, or later where the timer could not decide; null once nothing is held';
comment on column orders.closed_at is 'When it was closed without being paid; stays when money came all the same';

-- An order that is paid after it had closed takes pieces that may have been sold meanwhile. `stock` cannot go below zero, since
-- that check is what refuses to oversell. Validated by the next file.
alter table products add column owed integer not null default 0;
alter table products add constraint products_owed_not_negative check (owed >= 0) not valid;

comment on column products.owed is 'Pieces that were paid for and are not there: of orders whose money came after they had closed. What comes back pays them off first';
comment on column products.stock is 'Pieces that can still be sold; taken when an order is made, given back when it closes unpaid. Its check is what refuses to oversell';

-- An intent that is reserved while the order is being closed is older than the closing statement's view of the intents. The
-- trigger looks again when the order's row is locked, after every reserve that held it has been committed.
create function refuse_live_intent() returns trigger language plpgsql as $$
begin
    if exists (
        select from intents
        where order_id = new.id and operation = 'pay'
            and state in ('pending', 'unknown', 'action_required', 'succeeded')
    ) then
        raise exception using
            errcode = 'check_violation',
            constraint = tg_name,
            table = tg_table_name,
            message = format('%s refuses this change', tg_name);
    end if;
    return new;
end
$$;

comment on function refuse_live_intent() is 'Raises a check violation where an intent of the order is under way or has paid';

create trigger orders_closed_have_no_live_intent before update on orders for each row
when (old.state = 'open' and new.state = 'closed')
execute function refuse_live_intent();
