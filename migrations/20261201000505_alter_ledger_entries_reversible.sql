-- The promises keep their names, since the code knows them by these.

alter table ledger_entries drop constraint ledger_entries_one_per_account;
alter table ledger_entries add constraint ledger_entries_one_per_account unique using index ledger_entries_once_each_way;
alter table ledger_entries drop constraint ledger_entries_one_per_charge;
alter table ledger_entries
    add constraint ledger_entries_one_per_charge unique using index ledger_entries_of_charge_once_each_way;
