-- Expand: lines of programs that name a thing of their own and its price, instead of a product of the catalogue.
--
-- An old replica pays such orders; it cannot show their pages until it is replaced, since it expects a product. None are made
-- before the first new replica runs.

alter table order_lines alter column sku drop not null;

comment on column order_lines.sku is 'The product; null for a line that a program named and priced itself';
comment on column order_lines.position is 'Place in the order, from 1: in order of SKU, or as the program sent them';
comment on column order_lines.picture is 'Its picture at that time; empty where there is none';
comment on column orders.email is 'Where the receipt goes: that of the intent that paid; until then what a program said, if it did';
comment on column orders.cart_id is 'UUID of the cart it came from, with the content its idempotency key; a fresh one for an order of a program';
