"""The modes that Debezium is recorded in, and the tables that are recorded in each beside those of
single values: keys of every kind, required columns, and values that an update leaves out."""

from __future__ import annotations

from typing import Final

PRESET: Final = {
    "time.precision.mode": "adaptive",
    "decimal.handling.mode": "precise",
    "binary.handling.mode": "bytes",
    "interval.handling.mode": "numeric",
    "hstore.handling.mode": "json",
}
FORMS: Final[dict[str, dict[str, str]]] = {
    "preset": PRESET,
    "microseconds": PRESET
    | {
        "time.precision.mode": "microseconds",
        "decimal.handling.mode": "double",
        "binary.handling.mode": "base64",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
    },
    "nanoseconds": PRESET
    | {
        "time.precision.mode": "nanoseconds",
        "decimal.handling.mode": "string",
        "binary.handling.mode": "base64-url-safe",
    },
    "connect": PRESET | {"time.precision.mode": "connect", "binary.handling.mode": "hex"},
    "adaptive_time_microseconds": PRESET
    | {"time.precision.mode": "adaptive_time_microseconds", "decimal.handling.mode": "double"},
    "isostring": PRESET
    | {
        "time.precision.mode": "isostring",
        "decimal.handling.mode": "string",
        "binary.handling.mode": "base64",
        "interval.handling.mode": "string",
    },
}
LARGE: Final = "repeat('0123456789abcdef', 300)"
TABLES: Final = """
create table keyed (d date, n numeric(10,2), z timestamptz, t time, b bytea, u uuid, f float8,
    i interval, s timestamp, v varchar(5), w numeric,
    primary key (d, n, z, t, b, u, f, i, s, v, w));
create table required (id int primary key, a int not null, t text not null, d date not null,
    s timestamp not null, z timestamptz not null, n numeric(10,2) not null, w numeric not null,
    b bytea not null, l bool not null, u uuid not null, j jsonb not null, i interval not null,
    ar int[] not null, x text not null default 'x', y int default 7, f float8 not null,
    ti time not null, tz timetz not null, bi bit(3) not null, p point not null);
create table toast (id int primary key, x int, t text, b bytea, j jsonb, n numeric, v varbit,
    ta text[], ia int[], la bigint[], ua uuid[], fa float8[], da date[], na numeric[],
    ba bytea[], sa timestamp[], nn text not null);
alter table toast alter t set storage external, alter b set storage external,
    alter j set storage external, alter n set storage external, alter v set storage external,
    alter ta set storage external, alter ia set storage external, alter la set storage external,
    alter ua set storage external, alter fa set storage external, alter da set storage external,
    alter na set storage external, alter ba set storage external, alter sa set storage external,
    alter nn set storage external;
"""
EXTRAS: Final = {"keyed": 4, "required": 3, "toast": 4}
STATEMENTS: Final = (
    "insert into keyed values ('2024-02-29', 1.5, '2024-02-29 12:00:00.5', '12:34:56.7', '\\x00ff',"
    " '550e8400-e29b-41d4-a716-446655440000', 1.5, '1 day', '2024-02-29 12:00:00', 'a', 1.25)",
    "delete from keyed",
    "insert into required values (1, 2, 'a', '2024-02-29', '2024-02-29 12:00:00.1',"
    " '2024-02-29 12:00:00.1', 1.5, 2.25, '\\x00', true, '550e8400-e29b-41d4-a716-446655440000',"
    " '{}', '1 day', '{1,2}', 'y', null, 1.5, '12:00:00', '12:00:00+01', '101', '(1,2)')",
    "delete from required",
    "insert into toast select 1, 1, {large}, {large}::bytea, to_jsonb({large}),"
    " repeat('1234567890', 3000)::numeric, repeat('10', 10000)::varbit,"
    " array_agg('text' || i), array_agg(i), array_agg(i::bigint),"
    " array_agg(('550e8400-e29b-41d4-a716-' || lpad(i::text, 12, '0'))::uuid),"
    " array_agg(i::float8), array_agg(date '2024-01-01' + i), array_agg(i::numeric),"
    " array_agg(i::text::bytea), array_agg(timestamp '2024-01-01' + i * interval '1 day'), {large}"
    " from generate_series(1, 2000) i",
    "update toast set x = 2",
    "delete from toast",
)
