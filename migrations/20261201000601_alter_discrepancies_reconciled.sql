-- Discrepancies that a comparison of whole ledgers finds, and how each discrepancy was healed. A replica of the last release
-- writes none of the new columns.

alter table discrepancies
    add column refund text,
    add column named_order uuid,
    add column checked_at timestamptz,
    add column resolution text;

alter table discrepancies drop constraint discrepancies_kind_known;
alter table discrepancies add constraint discrepancies_kind_known check (
    kind in (
        'amount_mismatch', 'charge_of_failed_intent', 'second_charge', 'unknown_payment_intent', 'wrong_mode',
        'only_ours', 'state_mismatch', 'unreadable_charge',
        'refund_only_theirs', 'refund_only_ours', 'refund_amount_mismatch', 'refund_state_mismatch', 'unreadable_refund'
    )
) not valid;

alter table discrepancies drop constraint discrepancies_of_intent_tell_all;
alter table discrepancies add constraint discrepancies_of_intent_tell_all check (
    kind in ('unknown_payment_intent', 'wrong_mode', 'unreadable_charge')
    or refund is not null
    or named_order is not null
    or (
        operation is not null and order_id is not null and intent_id is not null and charge is not null
        and expected_minor is not null and expected_currency is not null
        and (kind = 'only_ours' or (reported_minor is not null and reported_currency is not null))
    )
) not valid;

alter table discrepancies drop constraint discrepancies_without_intent_name_event;
alter table discrepancies add constraint discrepancies_without_intent_name_event check (
    kind not in ('unknown_payment_intent', 'wrong_mode')
    or (order_id is null and (event is not null or (kind = 'unknown_payment_intent' and charge is not null)))
) not valid;

alter table discrepancies add constraint discrepancies_resolution_has_instant check (
    resolution is null or resolved_at is not null
) not valid;
alter table discrepancies add constraint discrepancies_resolution_known check (
    resolution in ('booked', 'found', 'refunded', 'agrees')
) not valid;

comment on column discrepancies.kind is 'amount_mismatch: charged another amount or currency than agreed or booked. charge_of_failed_intent: money for an intent that had failed; booked. second_charge: money where another charge had paid already. unknown_payment_intent: money for a payment intent that no intent and no order of ours knows. wrong_mode: an event of a test at a live shop, or the other way round. only_ours: booked, and the provider has no such charge. state_mismatch: charged for an order that another try is paying. unreadable_charge: an entry of the provider''s list that is not understood. refund_only_theirs, refund_only_ours, refund_amount_mismatch, refund_state_mismatch, unreadable_refund: the same of refunds';
comment on column discrepancies.refund is 'The provider''s refund, where it is about one';
comment on column discrepancies.named_order is 'The order that the provider''s object names, where no intent of ours belongs to it; there need not be such an order';
comment on column discrepancies.checked_at is 'When the reconciliation last looked whether it still stands';
comment on column discrepancies.resolved_at is 'When it was closed, by a person or because it healed; null while open';
comment on column discrepancies.resolution is 'How it healed. booked: the money is in our ledger. found: the provider has it after all. refunded: given back. agrees: both sides say the same now. Null while open, and where a person closed it';
