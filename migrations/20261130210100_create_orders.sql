-- What is bought. The content of an order never changes; another content is another order.

create table orders (
    id uuid not null,
    token text not null,
    reference text not null,
    cart_id uuid not null,
    content_hash bytea not null,
    currency text not null,
    amount_minor bigint not null,
    state text not null default 'open',
    offered_intent uuid not null,
    provider_payment_intent text,
    email text,
    paid_intent uuid,
    charge text,
    paid_at timestamptz,
    closed_at timestamptz,
    created_at timestamptz not null default now(),
    constraint orders_pkey primary key (id),
    constraint orders_token_key unique (token),
    constraint orders_reference_key unique (reference),
    constraint orders_one_per_cart_and_content unique (cart_id, content_hash),
    constraint orders_provider_payment_intent_key unique (provider_payment_intent),
    constraint orders_token_is_long check (length(token) >= 22),
    constraint orders_content_hash_is_sha256 check (length(content_hash) = 32),
    constraint orders_currency_is_iso check (currency ~ '^[A-Z]{3}$'),
    constraint orders_amount_in_range check (amount_minor between 1 and 99999999999),
    constraint orders_state_known check (state in ('open', 'paid', 'closed')),
    constraint orders_paid_is_proven check (
        (state = 'paid') = (paid_at is not null)
        and (paid_at is null) = (charge is null)
        and (paid_at is null) = (paid_intent is null)
    ),
    constraint orders_closed_has_instant check (state <> 'closed' or closed_at is not null)
);

-- `orders_token_key` serves every page of an order; `orders_one_per_cart_and_content` serves the repeat of Checkout and
-- the look-up by cart.

comment on table orders is 'What is bought, for how much, and whether it is paid';
comment on column orders.id is 'Time-ordered UUID; told to the provider, never a capability';
comment on column orders.token is 'The capability to see and pay the order: 22 characters of base 62, 131 random bits';
comment on column orders.reference is 'For people to read and type, e.g. AB12-CD34';
comment on column orders.cart_id is 'UUID of the cart it came from; with the content its idempotency key';
comment on column orders.content_hash is 'SHA-256 over the lines in order of SKU: SKU, quantity, unit price, currency';
comment on column orders.currency is 'ISO 4217 code of the amount and of every line';
comment on column orders.amount_minor is 'What is to be paid, in minor units';
comment on column orders.state is 'open: can be paid. paid: was paid, for ever. closed: can no longer be paid';
comment on column orders.offered_intent is 'The UUID that pages offer for the next intent; renewed when an intent fails';
comment on column orders.provider_payment_intent is 'The provider''s payment intent of this order; stored before anybody can pay';
comment on column orders.email is 'Where the receipt goes; that of the intent that paid';
comment on column orders.paid_intent is 'The intent that the paying charge belongs to';
comment on column orders.charge is 'The provider''s charge that paid the order';
comment on column orders.paid_at is 'When it was paid, by the provider''s clock where it told, in whole seconds';
comment on column orders.closed_at is 'When it was closed without being paid';
comment on column orders.created_at is 'When the checkout began';

create table order_lines (
    order_id uuid not null,
    position integer not null,
    sku text not null,
    name text not null,
    picture text not null,
    quantity integer not null,
    unit_minor bigint not null,
    constraint order_lines_pkey primary key (order_id, position),
    constraint order_lines_order_id_fkey foreign key (order_id) references orders (id),
    constraint order_lines_sku_fkey foreign key (sku) references products (sku),
    constraint order_lines_quantity_in_range check (quantity between 1 and 99),
    constraint order_lines_unit_in_range check (unit_minor between 1 and 99999999999)
);

-- `order_lines_pkey` serves the reading of an order's lines, in their order.

comment on table order_lines is 'The content of an order, as it was when the checkout began; never changed';
comment on column order_lines.order_id is 'The order';
comment on column order_lines.position is 'Place in the order, from 1, in order of SKU';
comment on column order_lines.sku is 'The product';
comment on column order_lines.name is 'Its name at that time';
comment on column order_lines.picture is 'Its picture at that time';
comment on column order_lines.quantity is 'Pieces';
comment on column order_lines.unit_minor is 'Price of one piece at that time, in minor units of the order''s currency';

-- Legal moves are a WHEN condition, so that a legal update never pays for a function call.
create function refuse_illegal_move() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = 'check_violation',
        constraint = tg_name,
        table = tg_table_name,
        message = format('%s refuses this change', tg_name);
end
$$;

comment on function refuse_illegal_move() is 'Raises a check violation that carries the trigger''s name, as a constraint would';

create trigger orders_moves_are_legal before update on orders for each row
when (
    not (
        old.state = new.state
        or (old.state, new.state) in (('open', 'paid'), ('open', 'closed'), ('closed', 'paid'))
    )
    or (old.id, old.token, old.cart_id, old.content_hash, old.currency, old.amount_minor)
        is distinct from (new.id, new.token, new.cart_id, new.content_hash, new.currency, new.amount_minor)
    or (
        old.state = 'paid'
        and (old.paid_intent, old.charge, old.paid_at) is distinct from (new.paid_intent, new.charge, new.paid_at)
    )
)
execute function refuse_illegal_move();
