-- What the provider tells of its own accord: each event once, whatever often it is delivered.

create table inbox_events (
    number bigint generated always as identity,
    event text not null,
    kind text not null,
    wrong_mode boolean not null,
    payment_intent text,
    notice text,
    charge text,
    amount_minor bigint,
    currency text,
    charged_at timestamptz,
    told_at timestamptz not null,
    received_at timestamptz not null default now(),
    deliveries integer not null default 1,
    tries integer not null default 0,
    try_at timestamptz not null default now(),
    handled_at timestamptz,
    effect text,
    constraint inbox_events_pkey primary key (number),
    constraint inbox_events_one_per_event unique (event),
    constraint inbox_events_notice_known check (notice in ('charged', 'cancelled', 'changed')),
    constraint inbox_events_notice_names_payment_intent check (notice is null or payment_intent is not null),
    constraint inbox_events_charged_tells_money check (
        (notice is not distinct from 'charged') = (charge is not null and amount_minor is not null and currency is not null)
    ),
    constraint inbox_events_effect_known check (effect in ('applied', 'known', 'discrepancy', 'none')),
    constraint inbox_events_handled_has_effect check ((handled_at is null) = (effect is null))
);

-- Serves the look for events that were received and not handled: few at any time.
create index inbox_events_due on inbox_events (try_at) where handled_at is null;
-- Serves the purge of old events.
create index inbox_events_by_age on inbox_events (received_at) where handled_at is not null;

comment on table inbox_events is 'Events of the provider whose signature was proven. Only what we act on is kept of them: their bodies hold secrets and names';
comment on column inbox_events.number is 'Order of receipt';
comment on column inbox_events.event is 'The provider''s id of the event: a second delivery finds this row';
comment on column inbox_events.kind is 'The provider''s word for what happened';
comment on column inbox_events.wrong_mode is 'A test''s event at a live shop, or the other way round; never applied';
comment on column inbox_events.payment_intent is 'Which payment intent it tells of; null where we act on nothing';
comment on column inbox_events.notice is 'charged, cancelled, or changed in a way that only asking tells; null where we act on nothing';
comment on column inbox_events.charge is 'The provider''s charge';
comment on column inbox_events.amount_minor is 'What the provider says it took, in minor units';
comment on column inbox_events.currency is 'ISO 4217 code of what it took';
comment on column inbox_events.charged_at is 'When it took it, by its own clock';
comment on column inbox_events.told_at is 'When the event was made, by the provider''s clock';
comment on column inbox_events.received_at is 'When its first delivery came';
comment on column inbox_events.deliveries is 'How often it was delivered';
comment on column inbox_events.tries is 'How often it was taken up again because its handling had not ended';
comment on column inbox_events.try_at is 'When it may be taken up again';
comment on column inbox_events.handled_at is 'Set in the commit of its effect, never before';
comment on column inbox_events.effect is 'applied: it moved an intent or booked money. known: nothing new. discrepancy: told to a person. none: not our business';
