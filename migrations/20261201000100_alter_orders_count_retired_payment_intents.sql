-- An order whose payment intent was cancelled gets another one. The number makes its creation's key at the provider a new one.

alter table orders add column payment_intents_retired integer not null default 0;

comment on column orders.payment_intents_retired is 'How many payment intents of this order were cancelled; names the next one''s creation at the provider';
