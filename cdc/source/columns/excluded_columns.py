"""The columns of ``source.columns``, which must not leave the source, and the publication's lists.

The publication leaves them out, so that PostgreSQL itself does not send them: what reads a table
(snapshots, mirrors, views, ``verify``) reads what is published. PostgreSQL lets the application
change a table with a column list only while the list covers its replica identity; so columns of
that, and tables whose identity is FULL, are refused before the publication is touched.
https://www.postgresql.org/docs/current/logical-replication-col-lists.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from cdc.config import Source
from cdc.errors import SourceError
from cdc.protocol.relation import Relation
from cdc.source.catalog import key_columns, published, table_facts
from cdc.source.columns.treated_columns import treatment_faults
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.selection import Table
from cdc.source.table_lookup import PARTITION_TREE

LISTS_SINCE: Final = 150000
_COLUMNS: Final = """
select a.attnum::int, a.attname, a.attgenerated
from pg_catalog.pg_attribute a
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
# Of the table and of each partition: rows are identified by the partition's own.
_IDENTITIES: Final = f"""{PARTITION_TREE}
select n.nspname || '.' || c.relname, c.relreplident = 'f',
       array(select a.attname::text
             from pg_catalog.pg_index i
             join pg_catalog.pg_attribute a on a.attrelid = c.oid
                  and a.attnum = any((i.indkey::int2[])[:i.indnkeyatts - 1])  -- no INCLUDE
             where i.indrelid = c.oid and case c.relreplident when 'd' then i.indisprimary
                                                              when 'i' then i.indisreplident end)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.oid in (select oid from tree)
order by c.oid
"""


class ColumnList(NamedTuple):
    """What the publication has to publish of a table, in order, and its row filter, as SQL.

    ``exposed`` are columns that it publishes now and must not; ``unlisted`` those that it leaves
    out though nobody excludes them: they were added since.
    """

    columns: tuple[str, ...]
    row_filter: str | None = None
    exposed: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()


ColumnLists = dict[tuple[str, str], ColumnList]
"""By schema and table; of tables with excluded columns alone."""


def column_lists(conn: Connection, source: Source, tables: Sequence[Table]) -> ColumnLists:
    """What ``source.columns`` makes of the publication; ``tables`` are those that are captured.

    Raises ``SourceError`` with every fault of its entries, one a line: also of those that the
    publication has nothing to do with.
    """
    excluding = [label for label in source.columns if source.excluded(label)]
    if excluding and conn.info.server_version < LISTS_SINCE:
        raise SourceError(
            f"source.columns: PostgreSQL {conn.info.server_version // 10_000} has no column lists",
            "use PostgreSQL 15 or newer, or exclude the table with source.exclude",
        )
    by_label, found = {table.label: table for table in tables}, ColumnLists()
    faults = list[str]()
    for label in source.columns:
        if label not in by_label:
            faults.append(_no_table(label, by_label))
            continue
        table = by_label[label]
        facts, configured = table_facts(conn, table.oid), source.keys.get(label, ())
        key = key_columns(table.replica_identity, facts, configured)
        faults += treatment_faults(conn, source, table.oid, label, key)
        if label not in excluding:
            continue
        excluded = source.excluded(label)
        with translated(f"reading the columns of {label}"):
            columns = conn.execute(_COLUMNS, (table.oid,)).fetchall()
            identities = conn.execute(_IDENTITIES, {"oid": table.oid}).fetchall()
        faults += _unknown(label, excluded, [name for _, name, _ in columns])
        faults += _identifying(label, excluded, identities)
        limits = published(conn, table.oid, source.publication_name)
        plain = {at: name for at, name, kind in columns if not kind}
        stored = {at: name for at, name, kind in columns if kind == "s" and limits.generated}
        every = {at: name for at, name, _ in columns}
        now = sorted(limits.columns) if limits.columns is not None else sorted(plain | stored)
        sent = [every[at] for at in now if at in every]
        kept = tuple(name for name in sent if name not in excluded)
        found[table.schema, table.name] = ColumnList(
            kept,
            limits.row_filter,
            tuple(name for name in sent if name in excluded),
            tuple(name for name in plain.values() if name not in sent and name not in excluded),
        )
        if not kept:
            faults.append(f"source.columns: no column of {label} is left. {_LEAVE_OUT}")
    if faults:
        raise SourceError("\n".join(faults))
    return found


_LEAVE_OUT: Final = "Leave the table out with source.exclude."


def refuse_excluded(source: Source, relation: Relation) -> None:
    """Raise ``SourceError`` where columns that must not leave the source are published of a table:
    its rows are about to be read."""
    if found := sorted(source.excluded(relation.name) & {one.name for one in relation.columns}):
        raise exposed(source.publication_name, {relation.name: found})


def exposed(publication: str, found: dict[str, Sequence[str]]) -> SourceError:
    """Why nothing is read: ``found`` are columns that are published, by ``schema.table``."""
    names = ", ".join(f"{label}.{name}" for label, names in found.items() for name in names)
    return SourceError(
        f"publication {publication} publishes {names}, which source.columns excludes",
        "run the SQL that `headwater check` shows, then run this again",
    )


def _no_table(label: str, known: dict[str, Table]) -> str:
    near = get_close_matches(label, known, 1, 0.75)
    hint = f"Did you mean {near[0]}?" if near else "Add it to source.tables, or remove the entry."
    return f"source.columns: no captured table is {label}. {hint}"


def _unknown(label: str, excluded: frozenset[str], columns: Sequence[str]) -> Iterator[str]:
    for name in sorted(excluded.difference(columns)):
        near = get_close_matches(name, columns, 1, 0.75)
        hint = f"Did you mean {near[0]}?" if near else "Use its current name, or remove the entry."
        yield f"source.columns: {label} has no column {name}. {hint}"


def _identifying(
    label: str, excluded: frozenset[str], identities: Sequence[tuple[str, bool, list[str]]]
) -> Iterator[str]:
    """Why PostgreSQL would refuse the application's UPDATE and DELETE."""
    for name, full, identity in identities:
        of = f"its partition {name}" if name != label else "it"
        if full:
            yield (
                f"source.columns: {label}: {of} has REPLICA IDENTITY FULL, so PostgreSQL would "
                f"refuse UPDATE and DELETE while a column is excluded. Set another identity: ALTER "
                f"TABLE {name} REPLICA IDENTITY DEFAULT."
            )
        elif taken := sorted(excluded.intersection(identity)):
            yield (
                f"source.columns: {label}: {', '.join(taken)} identifies its rows and cannot be "
                f"excluded. {_LEAVE_OUT}"
            )
