-- Validates what the last file promised.

alter table products validate constraint products_owed_not_negative;
