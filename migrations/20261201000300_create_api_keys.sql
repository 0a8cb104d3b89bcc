-- Who may call `/api/v1`.

create table api_keys (
    id uuid not null,
    name text not null,
    hint text not null,
    hash bytea not null,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    constraint api_keys_pkey primary key (id),
    constraint api_keys_hash_key unique (hash),
    constraint api_keys_hash_is_sha256 check (length(hash) = 32),
    constraint api_keys_name_is_short check (length(name) between 1 and 100),
    constraint api_keys_hint_is_short check (length(hint) <= 16)
);

-- `api_keys_hash_key` serves every call of a program.

comment on table api_keys is 'API keys of programs; the keys themselves are nowhere, only their hashes';
comment on column api_keys.id is 'Name for machines; part of the idempotency keys of the orders that it makes';
comment on column api_keys.name is 'Name for people: which program has it';
comment on column api_keys.hint is 'Beginning of the key, to recognise it by; too short to help guessing';
comment on column api_keys.hash is 'SHA-256 of the key. A fast hash is right here: the key is 190 random bits, so that there is nothing to guess from';
comment on column api_keys.created_at is 'When it was made';
comment on column api_keys.revoked_at is 'Since when it opens nothing; null while it does';
