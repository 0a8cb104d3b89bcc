-- Discrepancies that belong to no intent of ours: money for a payment intent that we do not know, events of the wrong mode.
-- A replica of the last release still writes all of these columns.

alter table discrepancies
    add column payment_intent text,
    add column event text,
    alter column operation drop not null,
    alter column order_id drop not null,
    alter column intent_id drop not null,
    alter column charge drop not null,
    alter column expected_minor drop not null,
    alter column expected_currency drop not null,
    alter column reported_minor drop not null,
    alter column reported_currency drop not null;

alter table discrepancies drop constraint discrepancies_kind_known;
alter table discrepancies add constraint discrepancies_kind_known check (
    kind in ('amount_mismatch', 'charge_of_failed_intent', 'second_charge', 'unknown_payment_intent', 'wrong_mode')
) not valid;
alter table discrepancies add constraint discrepancies_of_intent_tell_all check (
    kind in ('unknown_payment_intent', 'wrong_mode')
    or (
        operation is not null and order_id is not null and intent_id is not null and charge is not null
        and expected_minor is not null and expected_currency is not null
        and reported_minor is not null and reported_currency is not null
    )
) not valid;
alter table discrepancies add constraint discrepancies_without_intent_name_event check (
    kind not in ('unknown_payment_intent', 'wrong_mode') or (event is not null and order_id is null)
) not valid;

comment on column discrepancies.kind is 'amount_mismatch: charged another amount or currency than agreed; not booked. charge_of_failed_intent: money for an intent that had failed; booked. second_charge: money where another charge had paid already. unknown_payment_intent: money for a payment intent that no intent of ours confirms. wrong_mode: an event of a test at a live shop, or the other way round';
comment on column discrepancies.operation is 'Of the intent; null where there is none';
comment on column discrepancies.order_id is 'Of the intent; null where there is none';
comment on column discrepancies.intent_id is 'Of the intent; null where there is none';
comment on column discrepancies.charge is 'The provider''s charge; null where the event names none';
comment on column discrepancies.expected_minor is 'What was agreed with the payer, in minor units; null where nothing was';
comment on column discrepancies.expected_currency is 'ISO 4217 code of what was agreed; null where nothing was';
comment on column discrepancies.reported_minor is 'What the provider says it took, in minor units; null where it names no money';
comment on column discrepancies.reported_currency is 'ISO 4217 code of what the provider says it took; null where it names no money';
comment on column discrepancies.payment_intent is 'The provider''s payment intent, where no intent of ours confirms it';
comment on column discrepancies.event is 'The provider''s event that told it, where no intent of ours is concerned';
