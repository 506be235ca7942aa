-- When the newest change that was applied had been committed.
alter table headwater.progress add column committed_at timestamptz;

-- The last and the first batch since a view was computed whole that made it so; and why its
-- keeper cannot go on, null while it can.
alter table headwater.views
    add column whole_seq bigint,
    add column whole_first_seq bigint,
    add column error text;
