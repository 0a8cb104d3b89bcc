-- Idempotency keys of `POST /api/v1/orders`: which order a key has made, and the answer that its repeats get.

create table order_keys (
    api_key_id uuid not null,
    key text not null,
    fingerprint bytea not null,
    order_id uuid not null,
    archive_status smallint,
    archive_content_type text,
    archive_body bytea,
    created_at timestamptz not null default now(),
    purged_at timestamptz,
    constraint order_keys_pkey primary key (api_key_id, key),
    constraint order_keys_api_key_id_fkey foreign key (api_key_id) references api_keys (id),
    constraint order_keys_order_id_fkey foreign key (order_id) references orders (id),
    constraint order_keys_key_length check (octet_length(key) between 1 and 255),
    constraint order_keys_fingerprint_is_sha256 check (length(fingerprint) = 32),
    constraint order_keys_archived_until_purged check (
        (purged_at is null) = (archive_status is not null)
        and (purged_at is null) = (archive_content_type is not null)
        and (purged_at is null) = (archive_body is not null)
    ),
    constraint order_keys_archive_is_small check (octet_length(archive_body) <= 4096)
);

-- `order_keys_pkey` serves the making of an order and its repeats.

-- Serves the purge: archived answers in the order of their age.
create index order_keys_archived on order_keys (created_at) where purged_at is null;

comment on table order_keys is 'Which order each idempotency key of a program has made, with the archived answer';
comment on column order_keys.api_key_id is 'The API key; the subject, first part of the idempotency key';
comment on column order_keys.key is 'What the program sent; second part of the idempotency key';
comment on column order_keys.fingerprint is 'SHA-256 of the canonical request; another one under the same key is refused';
comment on column order_keys.order_id is 'The order that it made';
comment on column order_keys.archive_status is 'Status of the archived answer';
comment on column order_keys.archive_content_type is 'Content type of the archived answer';
comment on column order_keys.archive_body is 'Bytes of the archived answer, replayed as they are';
comment on column order_keys.created_at is 'When the order was made';
comment on column order_keys.purged_at is 'When the archived answer was dropped; a later repeat is told where the order is';
