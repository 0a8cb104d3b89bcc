-- Refunds: intents of the operation `refund`, with their own UUIDs, leases and archived answers. What an order can still give
-- back is guarded by sums in its own row, since two refunds that look at each other's rows would both pass.
--
-- A replica of the last release passes over refunds: it knows payments only. What it may do to one is to claim its lease,
-- find no payment of that key, and leave it to the next look.

alter table intents
    add column refunded_charge text,
    add column provider_refund text,
    add column reversed_at timestamptz,
    add column failure text,
    add column reason text,
    add column elsewhere boolean not null default false;

comment on column intents.operation is 'pay or refund; first part of the idempotency key';
comment on column intents.refunded_charge is 'Of a refund: the provider''s charge that it gives back';
comment on column intents.provider_refund is 'Of a refund: the provider''s refund, from the moment we know of it';
comment on column intents.reversed_at is 'Of a refund: when we learned that it failed after it had succeeded; the money came back to us';
comment on column intents.failure is 'Of a refund that failed: the provider''s word for why';
comment on column intents.reason is 'Of a refund: duplicate, fraudulent or requested_by_customer, where somebody said';
comment on column intents.elsewhere is 'Of a refund: made at the provider by somebody else; its UUID is derived from the provider''s id';
comment on column intents.amount_minor is 'What the payer saw and the order costs, or what is given back, in minor units';
comment on column intents.paid_at is 'When it was charged, or given back, by the provider''s clock where it told, in whole seconds';
comment on column intents.request is 'Body of the request to the provider, frozen, so that a re-send repeats the identical bytes; forgotten when final';

alter table orders
    add column refund_reserved_minor bigint not null default 0,
    add column refunded_elsewhere_minor bigint not null default 0,
    add column disputed_minor bigint not null default 0;

comment on column orders.refund_reserved_minor is 'Sum of our refunds of the paying charge that are under way or succeeded and were not reversed, in minor units';
comment on column orders.refunded_elsewhere_minor is 'Sum of refunds of the paying charge that were made at the provider by somebody else, in minor units';
comment on column orders.disputed_minor is 'What of the paying charge is disputed or was lost to a dispute, in minor units';

alter table ledger_entries add column reverses boolean not null default false;

comment on column ledger_entries.reverses is 'Takes an earlier entry back: a refund that succeeded and failed later';
comment on column ledger_entries.charge is 'The provider''s charge, or of a refund the provider''s refund; belongs to one intent only';
comment on column ledger_entries.account is 'provider_receivable: what the provider owes us. sales: what was sold. refunds: what was given back';
comment on column outbox_events.kind is 'intent_succeeded, intent_failed (of a payment or a refund), order_paid_late: money came for an intent that had failed; refund_reversed: a refund that had succeeded failed later';

-- Validated by the next file.
alter table ledger_entries drop constraint ledger_entries_account_known;
alter table ledger_entries add constraint ledger_entries_account_known check (
    account in ('provider_receivable', 'sales', 'refunds')
) not valid;

alter table outbox_events drop constraint outbox_events_kind_known;
alter table outbox_events add constraint outbox_events_kind_known check (
    kind in ('intent_succeeded', 'intent_failed', 'order_paid_late', 'refund_reversed')
) not valid;

alter table inbox_events drop constraint inbox_events_notice_known;
alter table inbox_events add constraint inbox_events_notice_known check (
    notice in ('charged', 'cancelled', 'changed', 'refunds')
) not valid;

alter table intents drop constraint intents_succeeded_is_charged;
alter table intents add constraint intents_succeeded_is_charged check (
    case operation
        when 'pay' then (state = 'succeeded') = (charge is not null) and (charge is null) = (paid_at is null)
        else charge is null and (state = 'succeeded') = (paid_at is not null)
            and (state <> 'succeeded' or provider_refund is not null)
    end
) not valid;

alter table intents add constraint intents_refund_names_charge check (
    (operation = 'refund') = (refunded_charge is not null)
    and (
        operation = 'refund'
        or (provider_refund is null and reversed_at is null and failure is null and reason is null and not elsewhere)
    )
) not valid;

alter table intents add constraint intents_only_what_succeeded_is_reversed check (
    reversed_at is null or state = 'succeeded'
) not valid;

alter table orders add constraint orders_refunds_never_exceed_charge check (
    refund_reserved_minor between 0 and amount_minor and refunded_elsewhere_minor >= 0 and disputed_minor >= 0
) not valid;

-- As before, and one move more: a refund that succeeded is reversed, once.
create or replace trigger intents_moves_are_legal before update on intents for each row
when (
    not (
        (old.state = new.state and old.finished_at is null and new.purged_at is null)
        or (
            new.purged_at is null
            and (old.state, new.state) in (
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
        or (
            old.finished_at is not null
            and old.purged_at is null
            and new.purged_at is not null
            and to_jsonb(old) - array['purged_at', 'email', 'archive_body']
                = to_jsonb(new) - array['purged_at', 'email', 'archive_body']
        )
        or (
            old.operation = 'refund' and old.state = 'succeeded'
            and old.reversed_at is null and new.reversed_at is not null
            and to_jsonb(old) - array['reversed_at', 'failure'] = to_jsonb(new) - array['reversed_at', 'failure']
        )
    )
    or (old.operation, old.order_id, old.id, old.fingerprint, old.amount_minor, old.currency, old.created_at)
        is distinct from
        (new.operation, new.order_id, new.id, new.fingerprint, new.amount_minor, new.currency, new.created_at)
    or new.fence < old.fence
)
execute function refuse_illegal_move();
