"""What a snapshot reads of one table: its columns, its files and their ranges of blocks.

A table is read file by file: a partitioned one partition by partition, whatever its depth. Ranges
are of ctid, never of a key: a row version has one place in its file as long as the file is the
same, so no collation, NaN or order of composite types can lead past a row. What is not a heap, or
may only be read through its root, is one range.

Columns are named, never ``*``, and the publication's column list and row filter apply, so the
snapshot holds exactly what the stream would. The **shape** is a fingerprint of all that the chunks
of a table rest on. In the snapshot the catalog is old, outside it is new: equal shapes mean that
no DDL came between.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cdc.config import Source
from cdc.errors import SourceError
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source.catalog import published, relation
from cdc.source.columns.excluded_columns import refuse_excluded
from cdc.source.columns.recorded_treatments import refuse_unrecorded
from cdc.source.columns.treated_columns import treated
from cdc.source.errors import translated
from cdc.source.postgres import Connection, identifier, literal
from cdc.source.selection import Table
from cdc.source.table_lookup import PARTITION_TREE, table_files, unchanged_files
from snapshots.ledger import Chunk

BLOCK_BYTES: Final = 8192
_CHUNKS_A_WORKER: Final = 16
"""What a kill can cost: the chunk that was read, and the one whose last row was held back."""
_FEWEST_BLOCKS: Final = 128
MOST_FILES: Final = 32
"""Read in one statement: with their indexes they take some hundred places in the server's table of
locks, of 6,400 by default."""
_FEW_ROWS: Final = 50_000
_CHUNK_S: Final = 5.0
"""A chunk's lock should not last longer: DDL, and all that queues behind it, waits for it."""

# Partitions of a partitioned table, or the table itself. Through its root alone is read what the
# role may not read directly, or what has row-level security of its own.
_LEAVES = f"""{PARTITION_TREE}
select c.oid::bigint, n.nspname, c.relname, c.relfilenode::bigint,
       pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint,
       greatest(c.reltuples, 0)::bigint,
       coalesce(m.amname = 'heap', false),
       pg_catalog.has_table_privilege(c.oid, 'select')
           and (c.oid = %(oid)s::oid or not c.relrowsecurity)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_am m on m.oid = c.relam
where c.relkind <> 'p' and c.oid in (select oid from tree)
order by c.oid
"""
_ONLY: Final = "ONLY "
_OF_NAME = "select pg_catalog.to_regclass(%s)::oid::bigint"


class Leaf(NamedTuple):
    """A file to read: ``name`` is quoted for SQL. Without ``by_block`` it is read as a whole.

    ``file`` is its ``relfilenode``, of all partitions if it is a root: another one after a rewrite.
    """

    oid: int
    name: str
    file: str
    blocks: int
    rows: int
    by_block: bool


class TablePlan(NamedTuple):
    """How to read one table. ``row_filter`` is the publication's, ``bounds`` the snapshot's own.
    ``leaves`` are sorted by OID."""

    oid: int
    relation: Relation
    topic: str
    row_filter: str | None
    bounds: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    routed: Mapping[str, Any] = MappingProxyType({})  # as in a mark

    @property
    def label(self) -> str:
        return self.relation.name

    @property
    def conditions(self) -> list[str]:
        """What restricts its rows, each in parentheses."""
        return [*([f"({self.row_filter})"] if self.row_filter else []), *self.bounds]

    @property
    def shape(self) -> str:
        """Fingerprint of the columns, the key, the conditions and the route, of files not."""
        told = [self.relation.describe(), self.conditions]
        document = json.dumps([*told, dict(self.routed)] if self.routed else told)
        return hashlib.sha256(document.encode()).hexdigest()[:32]

    def leaf(self, oid: int) -> Leaf:
        """The file of a chunk."""
        found = self.leaves[bisect_left(self.leaves, oid, key=lambda leaf: leaf.oid)]
        assert found.oid == oid
        return found

    def chunks(self, blocks: int, first_number: int = 1) -> list[Chunk]:
        """All of the table, in ranges of so many blocks."""
        schema, table = self.relation.schema, self.relation.table
        ranges = [(leaf, *found) for leaf in self.leaves for found in split(leaf, blocks)]
        return [
            Chunk(schema, table, number, leaf.oid, leaf.file, first, end)
            for number, (leaf, first, end) in enumerate(ranges, first_number)
        ]

    def statement(self, chunks: Sequence[Chunk], unseen: str = "") -> str:
        """The COPY of chunks; ``unseen`` is a condition that leaves out what was read before."""
        query = " UNION ALL ".join(self.query(chunk, unseen) for chunk in chunks)
        return f"COPY ({query}) TO STDOUT"

    def query(self, chunk: Chunk, unseen: str = "") -> str:
        """The SELECT of a chunk."""
        leaf, conditions = self.leaf(chunk.leaf), self.conditions
        if chunk.first:
            conditions.append(f"ctid >= '({chunk.first},0)'::pg_catalog.tid")
        if chunk.end is not None:
            conditions.append(f"ctid < '({chunk.end},0)'::pg_catalog.tid")
        if unseen:
            conditions.append(unseen)
        columns = ", ".join(identifier(column.name) for column in self.relation.columns)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {columns} FROM {leaf.name}{where}"


class Bounds(NamedTuple):
    """What a snapshot takes of its tables: SQL, and a range of the first key column."""

    where: str = ""
    key_range: tuple[str | None, str | None] | None = None


def plan_table(
    conn: Connection,
    table: Table,
    types: Mapping[int, TypeInfo],
    source: Source,
    topic: str,
    bounds: Bounds = Bounds(),  # noqa: B008 -- a value
) -> TablePlan:
    """Say how to read a table; ``conn`` is in the snapshot, whose catalog is what counts.

    Raises ``SourceError`` for bounds that do not fit the table, and for one of which a column is
    published that must not leave the source.
    """
    described = relation(conn, table.oid, types, source.publication_name, source.keys)
    refuse_excluded(source, described)
    described = treated(conn, described, source)
    refuse_unrecorded(conn, source, described)
    row_filter = published(conn, table.oid, source.publication_name).row_filter
    bounded, place = _bounded(described, bounds), source.place(table.schema, table.name)
    routed, files = place.recorded if place.route >= 0 else {}, _leaves(conn, table)
    plan = TablePlan(table.oid, described, topic, row_filter, bounded, files, routed)
    if not bounded:
        return plan
    if bounds.where and plan.leaves:
        _refuse_others(conn, plan, bounds.where)
    leaves = [leaf for group in _groups(plan.leaves) for leaf in _narrow(conn, plan, group)]
    return plan._replace(leaves=tuple(leaves))


def _refuse_others(conn: Connection, plan: TablePlan, where: str) -> None:
    """Raise ``SourceError`` for a ``where`` that is not one condition.

    In parentheses it could close them, and say what it likes to the server. What stands between
    CASE WHEN and THEN as well can close neither; and a prepared statement is a single one.
    """
    query = f"SELECT FROM {plan.leaves[0].name} WHERE CASE WHEN {where}\n THEN true END"
    with translated(f"{plan.label}: --where"):
        conn.execute(f"EXPLAIN {query}".encode(), prepare=True)


def _groups(leaves: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    """The leaves in their order, those of few blocks with others. Pure."""
    for small, of in groupby(leaves, lambda leaf: leaf.blocks <= _FEWEST_BLOCKS):
        found = list(of)
        size = MOST_FILES if small else 1
        yield from (found[at : at + size] for at in range(0, len(found), size))


def _narrow(conn: Connection, plan: TablePlan, leaves: Sequence[Leaf]) -> list[Leaf]:
    """With bounds: one range of what an index finds sooner than a scan of the file, and of what has
    few blocks. The planner's rows of all ``leaves`` count for the first."""
    whole = plan._replace(leaves=tuple(leaf._replace(by_block=False) for leaf in leaves))
    query = " UNION ALL ".join(map(plan.query, whole.chunks(1)))
    with (
        translated(f"{plan.label}: --where or --key-range"),
        conn.transaction(force_rollback=True),  # a savepoint: planning locks tables and indexes
    ):
        row = conn.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchone()
    assert row is not None
    rows = int(row[0][0]["Plan"]["Plan Rows"])
    by_block = len(leaves) == 1 and leaves[0].by_block and rows > _FEW_ROWS
    first, *others = (leaf._replace(by_block=by_block, rows=0) for leaf in leaves)
    return [first._replace(rows=rows), *others]


def shape_now(
    conn: Connection, plan: TablePlan, types: Mapping[int, TypeInfo], source: Source
) -> str:
    """The shape as ``conn`` sees it; ``""`` when the table is gone or cannot be described."""
    try:
        now = relation(conn, plan.oid, types, source.publication_name, source.keys)
        now = treated(conn, now, source)
        row_filter = published(conn, plan.oid, source.publication_name).row_filter
    except SourceError:
        return ""
    return plan._replace(relation=now, row_filter=row_filter).shape


def same_files(conn: Connection, leaves: Sequence[Leaf]) -> bool:
    """Whether the files are the planned ones, in the snapshot that ``conn`` is in and at present.

    What was rewritten looks empty to an older snapshot, and its rows have other places. What took
    the name of a partition that was renamed is another one; once it is locked no name changes.
    """
    named = [(leaf.name.removeprefix(_ONLY), leaf.oid, leaf.file) for leaf in leaves]
    if all(leaf.name.startswith(_ONLY) for leaf in leaves):
        return len(unchanged_files(conn, named)) == len(leaves)
    ((name, oid, files),) = named  # of a root
    with translated(f"looking for {name}"):
        row = conn.execute(_OF_NAME, (name,)).fetchone()
    return row == (oid,) and table_files(conn, oid) == (files, files)


def split(leaf: Leaf, chunk_blocks: int) -> list[tuple[int, int | None]]:
    """Ranges of blocks that cover a file, the last one open: the file may grow. Pure."""
    if not leaf.by_block or leaf.blocks <= chunk_blocks:
        return [(0, None)]
    starts = list(range(0, leaf.blocks, chunk_blocks))
    ends: list[int | None] = [*starts[1:], None]
    return list(zip(starts, ends, strict=True))


def chunk_blocks(
    leaves: tuple[Leaf, ...], workers: int, largest_mb: float, rows_s: float, bytes_s: float
) -> int:
    """Blocks of a chunk: enough for every worker, none longer than some seconds. Pure.

    ``rows_s`` and ``bytes_s`` are a worker's limits, infinite without one.
    """
    blocks = sum(leaf.blocks for leaf in leaves)
    rows = sum(leaf.rows for leaf in leaves)
    most = largest_mb * 1_000_000 / BLOCK_BYTES
    most = min(most, bytes_s * _CHUNK_S / BLOCK_BYTES)
    if rows:
        most = min(most, rows_s * _CHUNK_S * blocks / rows)
    fair = max(_FEWEST_BLOCKS, blocks / (workers * _CHUNKS_A_WORKER))
    return max(1, int(min(most, fair)))


def estimated_rows(leaves: tuple[Leaf, ...]) -> int:
    """The planner's idea of the table's rows; 0 when it has none."""
    return sum(leaf.rows for leaf in leaves)


def _leaves(conn: Connection, table: Table) -> tuple[Leaf, ...]:
    with translated(f"reading the files of {table.label}"):
        rows = conn.execute(_LEAVES, {"oid": table.oid}).fetchall()
        if table.kind == "p" and not all(row[7] for row in rows):
            name = f"{identifier(table.schema)}.{identifier(table.name)}"
            blocks, tuples = sum(row[4] or 0 for row in rows), sum(row[5] for row in rows)
            files = ",".join(str(row[3]) for row in rows)
            return (Leaf(table.oid, name, files, blocks, tuples, False),)
    return tuple(
        Leaf(
            oid, f"{_ONLY}{identifier(schema)}.{identifier(name)}", str(file), blocks or 0, rows, at
        )
        for oid, schema, name, file, blocks, rows, at, _ in rows
    )


def _bounded(shape: Relation, bounds: Bounds) -> tuple[str, ...]:
    conditions = [f"({bounds.where}\n)"] if bounds.where else []
    if bounds.key_range is not None:
        if not shape.key:
            raise SourceError(f"{shape.name} has no key for --key-range", "use --where")
        column = identifier(shape.key[0])
        for value, operator in zip(bounds.key_range, (">=", "<"), strict=True):
            if value is not None:
                conditions.append(f"({column} {operator} {literal(value)})")
    return tuple(conditions)
