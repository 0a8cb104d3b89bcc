-- Money that moved, double entry: for each charge what the provider owes us, and what was sold.

create table ledger_entries (
    id bigint generated always as identity,
    operation text not null,
    order_id uuid not null,
    intent_id uuid not null,
    account text not null,
    amount_minor bigint not null,
    currency text not null,
    charge text not null,
    created_at timestamptz not null default now(),
    constraint ledger_entries_pkey primary key (id),
    constraint ledger_entries_one_per_account unique (operation, order_id, intent_id, account),
    constraint ledger_entries_one_per_charge unique (charge, account),
    constraint ledger_entries_intent_fkey foreign key (operation, order_id, intent_id)
        references intents (operation, order_id, id),
    constraint ledger_entries_account_known check (account in ('provider_receivable', 'sales')),
    constraint ledger_entries_sign_fits check (
        operation <> 'pay'
        or (account = 'provider_receivable' and amount_minor > 0)
        or (account = 'sales' and amount_minor < 0)
    ),
    constraint ledger_entries_currency_is_iso check (currency ~ '^[A-Z]{3}$')
);

comment on table ledger_entries is 'Double-entry ledger; the two rows of a charge are written by one statement and sum to zero';
comment on column ledger_entries.id is 'Order of writing';
comment on column ledger_entries.operation is 'Of the intent';
comment on column ledger_entries.order_id is 'Of the intent';
comment on column ledger_entries.intent_id is 'Of the intent';
comment on column ledger_entries.account is 'provider_receivable: what the provider owes us. sales: what was sold';
comment on column ledger_entries.amount_minor is 'Debit positive, credit negative, in minor units';
comment on column ledger_entries.currency is 'ISO 4217 code of the amount';
comment on column ledger_entries.charge is 'The provider''s charge; belongs to one intent only';
comment on column ledger_entries.created_at is 'When it was written';
