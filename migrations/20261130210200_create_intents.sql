-- Checkout intents: one try to pay one order with one payment method, named by one UUID.

create sequence fences;

comment on sequence fences is 'Fencing numbers; a sequence, so that no two owners of any intents ever share one';

create table intents (
    operation text not null,
    order_id uuid not null,
    id uuid not null,
    fingerprint bytea not null,
    state text not null default 'pending',
    amount_minor bigint not null,
    currency text not null,
    email text not null,
    replaces uuid,
    provider_payment_intent text not null,
    request bytea,
    owner uuid not null,
    fence bigint not null default nextval('fences'),
    lease_expires_at timestamptz,
    look_at timestamptz,
    looks integer not null default 0,
    continue_url text,
    charge text,
    paid_at timestamptz,
    decline text,
    archive_status smallint,
    archive_content_type text,
    archive_body bytea,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    constraint intents_pkey primary key (operation, order_id, id),
    constraint intents_order_id_fkey foreign key (order_id) references orders (id),
    constraint intents_replaces_fkey foreign key (operation, order_id, replaces)
        references intents (operation, order_id, id),
    constraint intents_operation_known check (operation in ('pay', 'refund')),
    constraint intents_state_known check (
        state in ('pending', 'unknown', 'action_required', 'succeeded', 'failed')
    ),
    constraint intents_fingerprint_is_sha256 check (length(fingerprint) = 32),
    constraint intents_amount_in_range check (amount_minor between 1 and 99999999999),
    constraint intents_currency_is_iso check (currency ~ '^[A-Z]{3}$'),
    constraint intents_replaces_another check (replaces <> id),
    constraint intents_final_is_finished check ((state in ('succeeded', 'failed')) = (finished_at is not null)),
    constraint intents_final_is_archived check (
        (finished_at is null) = (archive_status is null)
        and (finished_at is null) = (archive_content_type is null)
        and (finished_at is null) = (archive_body is null)
    ),
    constraint intents_final_forgets_request check ((finished_at is null) = (request is not null)),
    constraint intents_unresolved_is_looked_at check ((finished_at is null) = (look_at is not null)),
    constraint intents_final_has_no_owner check (finished_at is null or lease_expires_at is null),
    constraint intents_succeeded_is_charged check (
        (state = 'succeeded') = (charge is not null) and (charge is null) = (paid_at is null)
    ),
    constraint intents_failed_has_reason check ((state = 'failed') = (decline is not null)),
    constraint intents_bank_step_has_url check ((state = 'action_required') = (continue_url is not null)),
    constraint intents_archive_is_small check (octet_length(archive_body) <= 4096),
    constraint intents_request_is_small check (octet_length(request) <= 8192)
);

-- Serves the reserve: at most one intent of an order is under way or has paid, whatever keys clients mint.
create unique index intents_one_live_per_order on intents (order_id)
where operation = 'pay' and state in ('pending', 'unknown', 'action_required', 'succeeded');

-- Serves recovery: unresolved intents in the order in which they are due.
create index intents_due on intents (look_at) where finished_at is null;

-- Refuses one charge as the success of two intents.
create unique index intents_one_per_charge on intents (charge) where charge is not null;

comment on table intents is 'Checkout intents and their archived answers; the unique constraint behind "charged exactly once"';
comment on column intents.operation is 'pay, later refund; first part of the idempotency key';
comment on column intents.order_id is 'The order; the subject, second part of the idempotency key';
comment on column intents.id is 'The UUID that the client minted; third part of the idempotency key';
comment on column intents.fingerprint is 'SHA-256 of the canonical request; another one under the same key is refused';
comment on column intents.state is 'pending, unknown and action_required are unresolved; succeeded and failed are final';
comment on column intents.amount_minor is 'What the payer saw and the order costs, in minor units';
comment on column intents.currency is 'ISO 4217 code of the amount';
comment on column intents.email is 'The payer''s e-mail, as sent';
comment on column intents.replaces is 'The failed intent of the same order that the client retired for this one';
comment on column intents.provider_payment_intent is 'The provider''s payment intent that is confirmed for this intent';
comment on column intents.request is 'Body of the confirm, frozen, so that a re-send repeats the identical bytes; forgotten when final';
comment on column intents.owner is 'Name that the present owner gave itself; a reserve whose answer was lost knows itself again by it';
comment on column intents.fence is 'Number of the present owner; every write of an executor names the one it holds';
comment on column intents.lease_expires_at is 'Until when the owner may work, by the database''s clock; null where nobody does';
comment on column intents.look_at is 'When recovery looks next, by the database''s clock';
comment on column intents.looks is 'How often the provider was asked what happened; stretches the time to the next look';
comment on column intents.continue_url is 'The bank''s page, while the bank wants to see the customer';
comment on column intents.charge is 'The provider''s charge';
comment on column intents.paid_at is 'When it was charged, by the provider''s clock where it told, in whole seconds';
comment on column intents.decline is 'Why it failed, one of a closed set of codes';
comment on column intents.archive_status is 'Status of the archived answer';
comment on column intents.archive_content_type is 'Content type of the archived answer';
comment on column intents.archive_body is 'Bytes of the archived answer, replayed as they are';
comment on column intents.created_at is 'When it was reserved';
comment on column intents.finished_at is 'When it became final';

-- The transition table of `payments::intent`; a test compares the two. A final intent never changes again, and nothing
-- that was agreed with the payer ever does.
create trigger intents_moves_are_legal before update on intents for each row
when (
    not (
        (old.state = new.state and old.finished_at is null)
        or (old.state, new.state) in (
            ('pending', 'unknown'),
            ('pending', 'action_required'),
            ('pending', 'succeeded'),
            ('pending', 'failed'),
            ('unknown', 'action_required'),
            ('unknown', 'succeeded'),
            ('unknown', 'failed'),
            ('action_required', 'succeeded'),
            ('action_required', 'failed')
        )
    )
    or (old.operation, old.order_id, old.id, old.fingerprint, old.amount_minor, old.currency, old.created_at)
        is distinct from
        (new.operation, new.order_id, new.id, new.fingerprint, new.amount_minor, new.currency, new.created_at)
    or new.fence < old.fence
)
execute function refuse_illegal_move();

-- Only a reservation whose request provably never left may be released.
create trigger intents_releases_are_legal before delete on intents for each row
when (old.state <> 'pending')
execute function refuse_illegal_move();
