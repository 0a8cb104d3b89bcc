-- Validates what the last file promised. This reads the whole tables, but payments go on meanwhile.

alter table intents validate constraint intents_refund_names_charge;
alter table orders validate constraint orders_refunds_never_exceed_charge;
