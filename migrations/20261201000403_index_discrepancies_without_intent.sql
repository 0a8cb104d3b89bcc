-- no-transaction
-- Two events tell of the same money: it is one difference. An event of the wrong mode is told once, whatever it names.
create unique index concurrently discrepancies_one_without_intent
    on discrepancies (kind, (case when kind = 'wrong_mode' then event else coalesce(charge, event) end))
    where order_id is null;
