-- How far the provider's lists were read, and by whom they are being read now.

create table readings (
    name text not null,
    place text,
    read_until timestamptz,
    owner uuid,
    lease_expires_at timestamptz,
    due_at timestamptz not null default now(),
    constraint readings_pkey primary key (name),
    constraint readings_name_known check (name in ('events', 'reconciliation')),
    constraint readings_owner_has_lease check ((owner is null) = (lease_expires_at is null)),
    constraint readings_place_has_instant check (place is null or read_until is not null)
);

comment on table readings is 'The provider''s lists that are read again and again: one row for each, here from the beginning';
comment on column readings.name is 'events: those that no delivery brought. reconciliation: charges and refunds';
comment on column readings.place is 'The provider''s id of the entry up to which the list was read; null where only the time counts';
comment on column readings.read_until is 'Up to when it was read, by the provider''s clock for events and by ours for the reconciliation';
comment on column readings.owner is 'Name that the present reader gave itself; null while nobody reads';
comment on column readings.lease_expires_at is 'Until when the reader may be relied on, by the database''s clock';
comment on column readings.due_at is 'When the list is to be read again without being asked to';

insert into readings (name) values ('events'), ('reconciliation');
