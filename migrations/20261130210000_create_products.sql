-- What can be bought. One product has one price in one currency; its shelf is the currency.

create table products (
    sku text not null,
    position integer not null,
    name text not null,
    description text not null,
    picture text not null,
    currency text not null,
    price_minor bigint not null,
    stock integer not null,
    constraint products_pkey primary key (sku),
    constraint products_sku_is_plain check (sku ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    constraint products_currency_is_iso check (currency ~ '^[A-Z]{3}$'),
    constraint products_price_in_range check (price_minor between 1 and 99999999999),
    constraint products_stock_not_negative check (stock >= 0)
);

comment on table products is 'The catalogue; a small table, always read whole';
comment on column products.sku is 'Stable name of the product; part of addresses and pictures';
comment on column products.position is 'Place in the catalogue, from the top';
comment on column products.name is 'Name as customers read it';
comment on column products.description is 'One or two sentences for customers';
comment on column products.picture is 'Path of the picture on the shop''s own origin';
comment on column products.currency is 'ISO 4217 code; also the shelf on which the product stands';
comment on column products.price_minor is 'Price of one piece in minor units of the currency';
comment on column products.stock is 'Pieces that can still be sold; taken when an order is made. Its check is what refuses to oversell';
