-- What somebody asks of Headwater with a row, in a transaction of their own: see docs/signals.md.
-- Columns as Debezium's signalling table has them; the others say what became of it.
create table headwater.signal (
    id text primary key default gen_random_uuid()::text,
    type text not null,
    data text,
    source text,
    made_at timestamptz not null default now(),
    taken_at timestamptz,
    answer text
);
create index signal_waiting on headwater.signal (made_at) where taken_at is null;
comment on column headwater.signal.source is 'source.name that is meant; null: whichever looks first';
