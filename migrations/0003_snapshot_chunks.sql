-- Snapshots that go on where they were: which ranges of which table are in Kafka, and at which LSN
-- each was read. Besides the initial snapshot of a source there are any number on demand.
alter table headwater.snapshot
    drop constraint snapshot_source_key,
    drop constraint snapshot_status_check,
    drop constraint snapshot_check,
    alter column slot drop not null,
    add kind text not null default 'initial' check (kind in ('initial', 'on_demand')),
    add options jsonb not null default '{}',
    add wanted text check (wanted in ('pause', 'cancel')),
    add error text,
    add constraint snapshot_status_check
        check (status in ('running', 'paused', 'failed', 'cancelled', 'complete')),
    add constraint snapshot_check
        check (status <> 'complete' or (consistent_point is not null and finished_at is not null));

create unique index snapshot_initial on headwater.snapshot (source) where kind = 'initial';

-- Each LSN that rows were read at, and what the exported snapshot there sees. Row versions that it
-- does not see are read again from the ranges that were finished with it.
create table headwater.snapshot_point (
    snapshot_id bigint not null references headwater.snapshot on delete cascade,
    lsn pg_lsn not null,
    sees pg_snapshot not null,
    taken_at timestamptz not null default now(),
    primary key (snapshot_id, lsn)
);

-- `finished_at` is null while the table is read; `shape` is the fingerprint of its columns, key,
-- row filter and files: chunks hold for this shape only.
alter table headwater.snapshot_table
    alter column row_count set default 0,
    alter column finished_at drop not null,
    alter column finished_at drop default,
    add shape text,
    add estimated_rows bigint not null default 0,
    add topic text;

-- A range of blocks of one file (its relfilenode, which is another after a rewrite):
-- [first_block, end_block), null: to the last one there will ever be.
-- `lsn` is null until every row of it was acknowledged by Kafka; then each row version that the
-- snapshot at that LSN sees in this range is in Kafka, read there or at an earlier LSN.
create table headwater.snapshot_chunk (
    snapshot_id bigint not null,
    schema_name text not null,
    table_name text not null,
    number int not null,
    leaf oid not null,
    file text not null,
    first_block bigint not null check (first_block >= 0),
    end_block bigint check (end_block > first_block),
    lsn pg_lsn,
    row_count bigint not null default 0 check (row_count >= 0),
    finished_at timestamptz,
    primary key (snapshot_id, schema_name, table_name, number),
    foreign key (snapshot_id, schema_name, table_name)
        references headwater.snapshot_table on delete cascade
);
