-- What others must learn of. Written with the fact itself; told later, in order, at least once.

create table outbox_events (
    id bigint generated always as identity,
    kind text not null,
    operation text not null,
    order_id uuid not null,
    intent_id uuid not null,
    payload bytea not null,
    created_at timestamptz not null default now(),
    published_at timestamptz,
    constraint outbox_events_pkey primary key (id),
    constraint outbox_events_one_per_kind unique (operation, order_id, intent_id, kind),
    constraint outbox_events_intent_fkey foreign key (operation, order_id, intent_id)
        references intents (operation, order_id, id),
    constraint outbox_events_kind_known check (kind in ('intent_succeeded', 'intent_failed', 'order_paid_late'))
);

comment on table outbox_events is 'Events, one for each final intent, in the same commit as the fact they tell';
comment on column outbox_events.id is 'Name of the event for its consumers. Commits may come out of this order';
comment on column outbox_events.kind is 'intent_succeeded, intent_failed, or order_paid_late: money came for an intent that had failed';
comment on column outbox_events.operation is 'Of the intent';
comment on column outbox_events.order_id is 'Of the intent';
comment on column outbox_events.intent_id is 'Of the intent';
comment on column outbox_events.payload is 'JSON in UTF-8: the archived answer, or for order_paid_late what the provider charged';
comment on column outbox_events.created_at is 'When it happened';
comment on column outbox_events.published_at is 'When the broker confirmed it; null until then';
