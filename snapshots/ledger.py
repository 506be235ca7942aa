"""What of a snapshot is in Kafka: its points, tables and chunks in the schema ``headwater``.

A chunk is a range of blocks of one table or partition. It is recorded once Kafka has acknowledged
every row of it, with the LSN it was read at; from then on each row version that the snapshot at
that LSN sees in the range is in Kafka. All statements run in a session of their own in autocommit
mode, so none of them ever holds a transaction open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from cdc.lsn import format_lsn, parse_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_POINTS = """
select lsn::text, sees::text from headwater.snapshot_point where snapshot_id = %s order by lsn
"""
_ADD_POINT = """
insert into headwater.snapshot_point (snapshot_id, lsn, sees)
values (%s, %s::pg_lsn, %s::pg_snapshot) on conflict do nothing
"""
_TABLES = """
select schema_name, table_name, shape, estimated_rows, topic, row_count,
       finished_at is not null
from headwater.snapshot_table where snapshot_id = %s order by schema_name, table_name
"""
_ADD_TABLE = """
insert into headwater.snapshot_table
    (snapshot_id, schema_name, table_name, shape, estimated_rows, topic)
values (%s, %s, %s, %s, %s, %s)
"""
_CHUNKS = """
select schema_name, table_name, number, leaf::bigint, file, first_block, end_block,
       lsn::text, row_count, dead_letters
from headwater.snapshot_chunk where snapshot_id = %s
order by schema_name, table_name, number
"""
_ADD_CHUNK = """
insert into headwater.snapshot_chunk
    (snapshot_id, schema_name, table_name, number, leaf, file, first_block, end_block)
values (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_DONE = """
update headwater.snapshot_chunk
set lsn = %(lsn)s::pg_lsn, finished_at = pg_catalog.now(),
    row_count = row_count + case number when %(first)s then %(rows)s else 0 end,
    dead_letters = dead_letters + case number when %(first)s then %(dead_letters)s else 0 end
where snapshot_id = %(id)s and schema_name = %(schema)s and table_name = %(table)s
  and number = any(%(numbers)s::int[])
"""
_OF_TABLE: Final = "where snapshot_id = %s and schema_name = %s and table_name = %s"
_FINISHED = f"""
update headwater.snapshot_table t
set finished_at = pg_catalog.now(), (row_count, dead_letters) =
    (select coalesce(sum(c.row_count), 0), coalesce(sum(c.dead_letters), 0)
     from headwater.snapshot_chunk c
     where c.snapshot_id = t.snapshot_id and c.schema_name = t.schema_name
       and c.table_name = t.table_name)
{_OF_TABLE}
"""


class Chunk(NamedTuple):
    """Blocks ``[first, end)`` of the relation ``leaf`` in ``file``; ``end`` None: to the last ever.

    ``lsn`` is where it was read last, None: not yet. ``rows`` were published of it so far, and
    ``dead_letters`` as such, being too large; those of chunks that were read together count for the
    first.
    """

    schema: str
    table: str
    number: int
    leaf: int
    file: str
    first: int
    end: int | None
    lsn: int | None = None
    rows: int = 0
    dead_letters: int = 0

    @property
    def label(self) -> str:
        """Its table's ``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def is_whole(self) -> bool:
        """Whether it is all of ``leaf``."""
        return not self.first and self.end is None


class TableRecord(NamedTuple):
    """A row of ``headwater.snapshot_table``; ``shape`` None: as an earlier Headwater wrote it."""

    schema: str
    table: str
    shape: str | None
    estimated_rows: int
    topic: str | None
    rows: int
    finished: bool

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.table}"


class Ledger:
    """The records of one snapshot. ``conn`` is in autocommit mode and serves nothing else."""

    def __init__(self, conn: Connection, snapshot_id: int) -> None:
        self.conn = conn
        self.id = snapshot_id

    def points(self) -> dict[int, str]:
        """Every LSN that rows were read at, rising, with what its snapshot sees."""
        return {parse_lsn(lsn): sees for lsn, sees in self._all(_POINTS)}

    def add_point(self, lsn: int, sees: str) -> None:
        """A snapshot was exported at ``lsn``; before any row of it is published."""
        with translated("writing headwater.snapshot_point"):
            self.conn.execute(_ADD_POINT, (self.id, format_lsn(lsn), sees))

    def tables(self) -> dict[str, TableRecord]:
        """By label."""
        found = [TableRecord._make(row) for row in self._all(_TABLES)]
        return {table.label: table for table in found}

    def chunks(self) -> list[Chunk]:
        """In the order they are read."""
        return [
            Chunk._make((*row[:7], None if row[7] is None else parse_lsn(row[7]), *row[8:]))
            for row in self._all(_CHUNKS)
        ]

    def plan(self, table: TableRecord, chunks: Sequence[Chunk]) -> None:
        """Begin a table, or begin it anew: whatever was recorded of it is forgotten."""
        name = (self.id, table.schema, table.table)
        with translated("writing headwater.snapshot_table"), self.conn.transaction():
            self.conn.execute(f"delete from headwater.snapshot_table {_OF_TABLE}".encode(), name)
            self.conn.execute(_ADD_TABLE, (*name, table.shape, table.estimated_rows, table.topic))
            self._insert(chunks)

    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """More of a table that is being read, as of a partition that it got."""
        if not chunks:
            return
        name = (self.id, chunks[0].schema, chunks[0].table)
        with translated("writing headwater.snapshot_chunk"), self.conn.transaction():
            self.conn.execute(
                f"update headwater.snapshot_table set finished_at = null {_OF_TABLE}".encode(), name
            )
            self._insert(chunks)

    def done(self, chunks: Sequence[Chunk], lsn: int, rows: int, dead_letters: int = 0) -> None:
        """Kafka has acknowledged these chunks of a table as of ``lsn``; ``rows`` more were
        published, and ``dead_letters`` more were too large."""
        numbers = [chunk.number for chunk in chunks]
        values = {"lsn": format_lsn(lsn), "rows": rows, "dead_letters": dead_letters}
        table = {"id": self.id, "schema": chunks[0].schema, "table": chunks[0].table}
        with translated("writing headwater.snapshot_chunk"):
            self.conn.execute(_DONE, {**values, **table, "first": numbers[0], "numbers": numbers})

    def finish(self, schema: str, table: str) -> None:
        """Every chunk of the table is done."""
        with translated("writing headwater.snapshot_table"):
            self.conn.execute(_FINISHED.encode(), (self.id, schema, table))

    def forget(self, tables: Iterable[TableRecord]) -> None:
        """Tables that the snapshot no longer is of."""
        for record in tables:
            with translated("writing headwater.snapshot_table"):
                self.conn.execute(
                    f"delete from headwater.snapshot_table {_OF_TABLE}".encode(),
                    (self.id, record.schema, record.table),
                )

    def _insert(self, chunks: Sequence[Chunk]) -> None:
        rows = [
            (self.id, c.schema, c.table, c.number, c.leaf, c.file, c.first, c.end) for c in chunks
        ]
        if rows:
            with self.conn.cursor() as cursor:
                cursor.executemany(_ADD_CHUNK, rows)

    def _all(self, query: str) -> list[Any]:
        with translated("reading what the snapshot has in Kafka"):
            return self.conn.execute(query.encode(), (self.id,)).fetchall()
