-- What Headwater remembers in the source: which migrations ran, and the initial snapshot of each
-- source. The schema may be there already, made by an owner for a role that may not create it.
do $$
begin
    if to_regnamespace('headwater') is null then
        create schema headwater;
    end if;
end
$$;

create table headwater.migration (
    version int primary key check (version > 0),
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);

-- One row a source. `running` is written before the slot is made and `complete` after every row
-- was acknowledged by Kafka, so a crash in between always leaves `running`.
create table headwater.snapshot (
    id bigint generated always as identity primary key,
    source text not null unique,
    slot text not null,
    status text not null check (status in ('running', 'complete')),
    consistent_point pg_lsn,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    check (status = 'running' or (consistent_point is not null and finished_at is not null))
);

create table headwater.snapshot_table (
    snapshot_id bigint not null references headwater.snapshot on delete cascade,
    schema_name text not null,
    table_name text not null,
    row_count bigint not null check (row_count >= 0),
    finished_at timestamptz not null default now(),
    primary key (snapshot_id, schema_name, table_name)
);
