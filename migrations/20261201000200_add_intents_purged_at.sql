-- Retention: some time after an intent became final its archived answer is purged. The row stays as a tombstone.
--
-- A release that knows nothing of tombstones reads these rows too, while a deploy is under way. So a purged archive is an
-- empty one and not an absent one: that release finds every column it asks for, shows the order as paid or failed, and has no
-- bytes to replay.

alter table intents add column purged_at timestamptz;

-- Null in a tombstone, and where a program that paid named none.
alter table intents alter column email drop not null;

comment on column intents.purged_at is 'When the archived answer and the e-mail were forgotten; a tombstone from then on';
comment on column intents.email is 'The payer''s e-mail, as sent, else the order''s; null where a program named none, and in a tombstone';
comment on column intents.archive_body is 'Bytes of the archived answer, replayed as they are; empty in a tombstone';

-- Validated by the next file.
alter table intents add constraint intents_unresolved_is_never_purged check (
    purged_at is null or finished_at is not null
) not valid;

alter table intents add constraint intents_purged_is_empty check (
    (purged_at is null or email is null)
    and (purged_at is not null) = coalesce(octet_length(archive_body) = 0, false)
) not valid;

-- The transition table of `payments::intent`, as before; a test compares the two. A final intent changes once more, when it
-- becomes a tombstone: nothing but the three columns of that. The comparison as JSON covers columns that later files add.
create or replace trigger intents_moves_are_legal before update on intents for each row
when (
    not (
        (old.state = new.state and old.finished_at is null and new.purged_at is null)
        or (
            new.purged_at is null
            and (old.state, new.state) in (
                ('pending', 'unknown'),
                ('pending', 'action_required'),
                ('pending', 'succeeded'),
                ('pending', 'failed'),
                ('unknown', 'action_required'),
                ('unknown', 'succeeded'),
                ('unknown', 'failed'),
                ('action_required', 'succeeded'),
                ('action_required', 'failed')
            )
        )
        or (
            old.finished_at is not null
            and old.purged_at is null
            and new.purged_at is not null
            and to_jsonb(old) - array['purged_at', 'email', 'archive_body']
                = to_jsonb(new) - array['purged_at', 'email', 'archive_body']
        )
    )
    or (old.operation, old.order_id, old.id, old.fingerprint, old.amount_minor, old.currency, old.created_at)
        is distinct from
        (new.operation, new.order_id, new.id, new.fingerprint, new.amount_minor, new.currency, new.created_at)
    or new.fence < old.fence
)
execute function refuse_illegal_move();
