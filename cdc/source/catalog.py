"""What the catalog says: the tables to capture, and each table's current relation.

The catalog shows the present, the stream the past: a Relation message decides names, order and
types of the columns it precedes. What is read here fills in what that message does not carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cdc.config import Source
from cdc.errors import SourceError
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier
from cdc.source.selection import TABLES, Table, select_tables, with_unidentified_leaves

# `identified` follows RelationGetIndexList: what UPDATE and DELETE of a published table ask for.
_TABLES = """
with relations as (
    select c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident,
           c.relreplident = 'f' or exists (
               select from pg_catalog.pg_index i
               where i.indrelid = c.oid and i.indisvalid and i.indimmediate
                 and case c.relreplident when 'd' then i.indisprimary
                                         when 'i' then i.indisreplident end) as identified
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f')
)
select r.oid::bigint, r.nspname, r.relname, r.relkind, r.relpersistence, r.relreplident,
       r.identified,
       array(select a.relid::oid::bigint
             from pg_catalog.pg_partition_ancestors(r.oid) a where a.relid <> r.oid)
from relations r
order by r.nspname, r.relname
"""

_COLUMNS = """
select a.attname, a.atttypid::bigint, a.atttypmod, a.attnum, a.attgenerated,
       not a.attnotnull or exists (  -- since 18 a NOT NULL constraint may be NOT VALID
           select from pg_catalog.pg_constraint k
           where k.conrelid = a.attrelid and k.contype = 'n' and not k.convalidated
             and k.conkey = array[a.attnum]),
       coalesce(n.nspname || '.' || l.collname, '')
from pg_catalog.pg_attribute a
-- Of a column whose type is a domain it is the domain's.
left join pg_catalog.pg_collation l on l.oid = a.attcollation and not l.collisdeterministic
left join pg_catalog.pg_namespace n on n.oid = l.collnamespace
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

# Deferrable indexes are no replica identity, and no key either: two rows may hold one value.
_KEYS = """
select i.indisprimary, i.indisreplident,
       array(select a.attname::text
             from unnest(i.indkey::int2[]) with ordinality k (attnum, place)
             join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
             where k.place <= i.indnkeyatts order by k.place)
from pg_catalog.pg_index i
where i.indrelid = %s::oid and i.indimmediate and i.indislive
  and (i.indisprimary or i.indisreplident)
"""

# Dropped columns are counted: their numbers are not given again.
_HIGHEST = "select c.relnatts::int from pg_catalog.pg_class c where c.oid = %s::oid"

_RELATION = """
select n.nspname, c.relname, c.relreplident
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = %s::oid
"""


# Through domains and arrays, in either order.
_LABELS = """
with recursive type as (
    select a.attnum, a.atttypid as oid from pg_catalog.pg_attribute a
    where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
    union
    select w.attnum, case t.typtype when 'd' then t.typbasetype else t.typelem end
    from type w join pg_catalog.pg_type t on t.oid = w.oid
    where t.typtype = 'd' or exists (
        select from pg_catalog.pg_type e where e.oid = t.typelem and e.typarray = t.oid)
)
select type.attnum::int, array_agg(e.enumlabel::text order by e.enumsortorder)
from type join pg_catalog.pg_enum e on e.enumtypid = type.oid
group by type.attnum
"""


class TableFacts(NamedTuple):
    """What a Relation message does not say: nullability by column, the primary key in its order.

    ``primary_key`` and ``identity_index`` are empty without an immediate index of that kind.
    ``columns`` are the published ones in order, each with name, OID of its type, typmod and attnum;
    ``highest`` is the highest attnum that any column of the table ever had, 0 for one that is gone.
    ``collations`` are those that take different texts for equal, by column. ``unpublished`` are the
    attnums of columns that are there and not published.
    """

    nullable: dict[str, bool]
    primary_key: tuple[str, ...]
    identity_index: tuple[str, ...]
    columns: tuple[tuple[str, int, int, int], ...] = ()
    highest: int = 0
    collations: Mapping[str, str] = MappingProxyType({})
    unpublished: frozenset[int] = frozenset()


class Published(NamedTuple):
    """How a publication restricts a table; ``columns`` is None for all, ``row_filter`` is SQL."""

    columns: frozenset[int] | None = None
    row_filter: str | None = None
    generated: bool = False
    """Stored generated columns are published as well."""


def captured_tables(conn: Connection, source: Source, setting: str = TABLES) -> list[Table]:
    """The tables that ``source.tables`` and ``source.exclude`` choose, by name. ``setting`` is what
    problems say the former stand in; empty: who called gave them.

    Raises ``SourceError`` with every problem, one a line: a name or pattern without a table, what
    has no WAL (views, unlogged tables), no replica identity, two tables for one topic.
    """
    tables, problems = chosen_tables(conn, source, setting)
    if problems:
        raise SourceError("\n".join(problems))
    return tables


def chosen_tables(
    conn: Connection, source: Source, setting: str = TABLES
) -> tuple[list[Table], list[str]]:
    """What ``captured_tables`` gives, and the problems that it would raise."""
    with translated("reading the tables of the database"):
        rows = conn.execute(_TABLES).fetchall()
    relations = with_unidentified_leaves(
        [Table._make((*row[:7], tuple(row[7]), None)) for row in rows]
    )
    return select_tables(
        source.name, source.tables, source.exclude, relations, setting, source.routing
    )


def table_facts(conn: Connection, oid: int, publication: str = "") -> TableFacts:
    """Columns and keys as the catalog has them now, the columns that ``publication`` publishes; all
    empty for a table that is gone."""
    with translated(f"reading the catalog for table {oid}"):
        columns = conn.execute(_COLUMNS, (oid,)).fetchall()
        keys = conn.execute(_KEYS, (oid,)).fetchall()
        highest = conn.execute(_HIGHEST, (oid,)).fetchone()
    limits = published(conn, oid, publication) if publication else Published()
    sent = {
        attnum
        for _, _, _, attnum, generated, *_ in columns
        if _is_published(limits, attnum, generated)
    }
    return TableFacts(
        {name: nullable for name, *_, nullable, _ in columns},
        next((tuple(names) for primary, _, names in keys if primary), ()),
        next((tuple(names) for _, identity, names in keys if identity), ()),
        tuple(
            (name, type_oid, typmod, attnum)
            for name, type_oid, typmod, attnum, *_ in columns
            if attnum in sent
        ),
        highest[0] if highest else 0,
        {name: collation for name, *_, collation in columns if collation},
        frozenset(attnum for _, _, _, attnum, *_ in columns) - sent,
    )


def table_name(conn: Connection, oid: int) -> str:
    """What a table is called now, ``schema.table``; "" for one that is gone."""
    with translated(f"reading the catalog for table {oid}"):
        row = conn.execute(_RELATION, (oid,)).fetchone()
    return f"{row[0]}.{row[1]}" if row else ""


def enum_labels(conn: Connection, oid: int) -> dict[int, list[str]]:
    """The labels of a table's enums, and of its arrays of them, by ``attnum``, in their order."""
    with translated(f"reading the enums of table {oid}"):
        return dict(conn.execute(_LABELS, (oid,)).fetchall())


def key_columns(
    replica_identity: str, facts: TableFacts, configured: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns of the event key, in key order; empty when events have no key.

    The primary key for identity default and full, the index of identity index. ``configured``
    (``source.keys``) serves a table of identity full without a primary key.
    """
    if replica_identity == "d":
        return facts.primary_key
    if replica_identity == "f":
        return facts.primary_key or tuple(configured)
    return facts.identity_index if replica_identity == "i" else ()


def published(conn: Connection, oid: int, publication: str) -> Published:
    """What ``publication`` publishes of a table. All of it, if there is no such entry."""
    version = conn.info.server_version
    generated = "p.pubgencols = 's'" if version >= 180000 else "false"
    entry = (
        "r.prattrs::int2[], pg_catalog.pg_get_expr(r.prqual, r.prrelid)"
        if version >= 150000
        else "null::int2[], null"
    )
    query = (
        f"select {entry}, {generated} from pg_catalog.pg_publication p "
        "left join pg_catalog.pg_publication_rel r on r.prpubid = p.oid and r.prrelid = %s::oid "
        "where p.pubname = %s"
    )
    with translated(f"reading publication {publication}"):
        row = conn.execute(query, (oid, publication)).fetchone()
    if row is None:
        return Published()
    return Published(frozenset(row[0]) if row[0] else None, row[1], row[2])


def relation(
    conn: Connection,
    oid: int,
    types: Mapping[int, TypeInfo],
    publication: str = "",
    keys: Mapping[str, Sequence[str]] | None = None,
    computed: bool = False,
) -> Relation:
    """The current view of one table: the columns that ``publication`` publishes, and its key;
    with ``computed`` the generated columns, too, that it does not publish.

    ``keys`` is ``source.keys``. Raises ``SourceError`` when the table is gone or a key column is
    not among the published ones.
    """
    with translated(f"reading the catalog for table {oid}"):
        head = conn.execute(_RELATION, (oid,)).fetchone()
        if head is None:
            raise SourceError(f"table with OID {oid} is gone", "run `headwater check`")
        rows = conn.execute(_COLUMNS, (oid,)).fetchall()
    schema, table, identity = head
    name = f"{schema}.{table}"
    facts = table_facts(conn, oid)
    key = key_columns(identity, facts, (keys or {}).get(name, ()))
    limits = published(conn, oid, publication) if publication else Published()
    columns = []
    for column, type_oid, typmod, attnum, generated, nullable, collation in rows:
        if not (_is_published(limits, attnum, generated) or (computed and generated)):
            continue
        if type_oid not in types:
            raise SourceError(
                f"{name}.{column}: type {type_oid} is not in the catalog", "try again"
            )
        kind = types[type_oid]
        effective = typmod if typmod != -1 else kind.typmod
        is_key = column in key
        columns.append(Column(column, kind, effective, is_key, nullable, attnum, collation))
    missing = [column for column in key if column not in {c.name for c in columns}]
    if missing:
        raise SourceError(
            f"{name}: key column {', '.join(missing)} is not published by the publication",
            "correct source.keys, or the column list of the publication",
        )
    return Relation(oid, schema, table, identity, tuple(columns), key)


def select_rows(
    conn: Connection,
    shape: Relation,
    kind: str,
    publication: str,
    names: Mapping[str, str] | None = None,
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The SELECT of exactly what ``publication`` publishes of a table; ``kind`` is ``relkind``.

    Columns are named, never ``*``: all of them, or those of ``names`` under its names for them, and
    as ``expressions`` have them. Tables that inherit from it are tables of their own.
    """
    called = {column.name: column.name for column in shape.columns} if names is None else names
    shown = {sent: expressions.get(sent, identifier(sent)) for sent in called}
    columns = ", ".join(f"{shown[sent]} AS {identifier(of)}" for sent, of in called.items())
    only = "" if kind == "p" else "ONLY "
    row_filter = published(conn, shape.oid, publication).row_filter
    where = f" WHERE {row_filter}" if row_filter else ""
    name = f"{identifier(shape.schema)}.{identifier(shape.table)}"
    return f"SELECT {columns} FROM {only}{name}{where}"


def _is_published(limits: Published, attnum: int, generated: str) -> bool:
    if limits.columns is not None:
        return attnum in limits.columns
    return not generated or (limits.generated and generated == "s")
