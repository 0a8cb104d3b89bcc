-- Validates what the last file promised. This reads the whole table, but payments go on meanwhile.

alter table discrepancies validate constraint discrepancies_kind_known;
alter table discrepancies validate constraint discrepancies_of_intent_tell_all;
alter table discrepancies validate constraint discrepancies_without_intent_name_event;
alter table discrepancies validate constraint discrepancies_resolution_has_instant;
alter table discrepancies validate constraint discrepancies_resolution_known;
