-- What the provider says and we cannot agree with. Never dropped; open until a person closes it.

create table discrepancies (
    id bigint generated always as identity,
    kind text not null,
    operation text not null,
    order_id uuid not null,
    intent_id uuid not null,
    charge text not null,
    expected_minor bigint not null,
    expected_currency text not null,
    reported_minor bigint not null,
    reported_currency text not null,
    created_at timestamptz not null default now(),
    resolved_at timestamptz,
    constraint discrepancies_pkey primary key (id),
    constraint discrepancies_one_per_charge unique (operation, order_id, intent_id, kind, charge),
    constraint discrepancies_intent_fkey foreign key (operation, order_id, intent_id)
        references intents (operation, order_id, id),
    constraint discrepancies_kind_known check (
        kind in ('amount_mismatch', 'charge_of_failed_intent', 'second_charge')
    )
);

comment on table discrepancies is 'Differences between the provider and our books, each told once';
comment on column discrepancies.id is 'Order of finding';
comment on column discrepancies.kind is 'amount_mismatch: charged another amount or currency than agreed; not booked. charge_of_failed_intent: money for an intent that had failed; booked. second_charge: money where another charge had paid already';
comment on column discrepancies.operation is 'Of the intent';
comment on column discrepancies.order_id is 'Of the intent';
comment on column discrepancies.intent_id is 'Of the intent';
comment on column discrepancies.charge is 'The provider''s charge';
comment on column discrepancies.expected_minor is 'What was agreed with the payer, in minor units';
comment on column discrepancies.expected_currency is 'ISO 4217 code of what was agreed';
comment on column discrepancies.reported_minor is 'What the provider says it took, in minor units';
comment on column discrepancies.reported_currency is 'ISO 4217 code of what the provider says it took';
comment on column discrepancies.created_at is 'When it was found';
comment on column discrepancies.resolved_at is 'When a person closed it; null while open';
