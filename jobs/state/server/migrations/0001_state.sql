-- What Headwater keeps beside mirrors, dirty keys and shown rows.
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

-- Whose state this is. One row.
create table headwater.identity (
    one boolean primary key default true check (one),
    format int not null,
    source text not null,
    system_identifier text not null,
    source_database text not null,
    created_at timestamptz not null default now()
);

-- Where the stream goes on: the next offset to read of each partition. The truth, not Spark's.
create table headwater.stream (
    topic text not null,
    partition int not null check (partition >= 0),
    next_offset bigint not null check (next_offset >= 0),
    primary key (topic, partition)
);

-- The position of the mirrors. One row. `total` is the sum of all next offsets.
create table headwater.progress (
    one boolean primary key default true check (one),
    batch bigint not null default 0,
    lsn bigint not null default 0,
    total bigint not null default 0,
    applied_at timestamptz not null default now()
);
insert into headwater.progress default values;

-- The newest batches. `offsets` are next offsets by topic and partition.
create table headwater.batches (
    batch bigint primary key,
    lsn bigint not null,
    total bigint not null,
    offsets jsonb not null,
    applied_at timestamptz not null default now()
);

-- One row a mirrored table of the source. `relation` is the name of the table in schema `mirror`;
-- rows of the fill have the position (fill_lsn, 0), and what is below a TRUNCATE is gone.
create table headwater.mirrors (
    id serial primary key,
    schema text not null,
    name text not null,
    oid bigint not null,
    relation text not null unique,
    columns jsonb not null,
    key text[] not null,
    schema_id text,
    fill_lsn bigint,
    truncated_lsn bigint,
    truncated_ordinal bigint,
    filled_at timestamptz,
    state text not null,
    unique (schema, name)
);

-- One row a generation of a view.
create table headwater.views (
    id serial primary key,
    name text not null,
    generation int not null check (generation > 0),
    sql text not null,
    key text[] not null,
    store text not null,
    plan jsonb not null default '{}',
    state text not null,
    created_at timestamptz not null default now(),
    unique (name, generation)
);

-- Keys whose rows a store or an expression refused.
create table headwater.parked (
    view_id int not null references headwater.views on delete cascade,
    key jsonb not null,
    cause text not null,
    since timestamptz not null default now(),
    primary key (view_id, key)
);

-- What the running apply is asked to do, and how far it is.
create table headwater.commands (
    id bigint generated always as identity primary key,
    kind text not null,
    view text,
    arguments jsonb not null default '{}',
    asked_at timestamptz not null default now(),
    taken_at timestamptz,
    done_at timestamptz,
    progress jsonb not null default '{}',
    result jsonb,
    error text
);
create index commands_open on headwater.commands (id) where done_at is null;

create schema mirror;
create schema dirty;
create schema shown;
