-- Validates what the last file promised. This reads the whole tables, but payments go on meanwhile.

alter table ledger_entries validate constraint ledger_entries_account_known;
alter table outbox_events validate constraint outbox_events_kind_known;
alter table inbox_events validate constraint inbox_events_notice_known;
alter table intents validate constraint intents_succeeded_is_charged;
alter table intents validate constraint intents_refund_names_charge;
alter table intents validate constraint intents_only_what_succeeded_is_reversed;
alter table orders validate constraint orders_refunds_never_exceed_charge;
