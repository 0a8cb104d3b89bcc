-- Refunds: intents of the operation `refund`, with their own UUIDs, leases and archived answers. What an order can still give
-- back is guarded by sums in its own row, since two refunds that look at each other's rows would both pass.

alter table intents
    add column refunded_charge text,
    add column provider_refund text,
    add column reversed_at timestamptz;

comment on column intents.operation is 'pay or refund; first part of the idempotency key';
comment on column intents.refunded_charge is 'Of a refund: the provider''s charge that it gives back';
comment on column intents.provider_refund is 'Of a refund: the provider''s refund, from the moment we know of it';
comment on column intents.reversed_at is 'Of a refund: when the provider said that it failed after it had succeeded; the money came back to us';

alter table orders
    add column refund_reserved_minor bigint not null default 0,
    add column refunded_elsewhere_minor bigint not null default 0,
    add column disputed_minor bigint not null default 0;

comment on column orders.refund_reserved_minor is 'Sum of our refunds of the paying charge that are under way or succeeded and were not reversed, in minor units';
comment on column orders.refunded_elsewhere_minor is 'Sum of refunds of the paying charge that were made at the provider by somebody else, in minor units';
comment on column orders.disputed_minor is 'What of the paying charge is disputed or was lost to a dispute, in minor units';

-- Validated by the next file.
alter table intents add constraint intents_refund_names_charge check (
    (operation = 'refund') = (refunded_charge is not null)
    and (operation = 'refund' or (provider_refund is null and reversed_at is null))
) not valid;

alter table orders add constraint orders_refunds_never_exceed_charge check (
    refund_reserved_minor between 0 and amount_minor and refunded_elsewhere_minor >= 0 and disputed_minor >= 0
) not valid;
