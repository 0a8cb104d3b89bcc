-- Validates what the last file promised. This reads the whole table, but payments go on meanwhile.

alter table intents validate constraint intents_unresolved_is_never_purged;
alter table intents validate constraint intents_purged_is_empty;
