-- Expand: payments that a restored backup had lost, brought back from the provider's charges.

alter table intents add column recovered_at timestamptz;

comment on column intents.recovered_at is 'When the reconciliation made this row from the provider''s charge, since the intent was lost; its UUID is then derived from the charge. Null for an intent that a client minted';
