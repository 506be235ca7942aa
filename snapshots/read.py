"""Reading a table in an exported snapshot, through COPY in text format.

The text form of a value is the one that the stream carries: the session's settings decide it
(``cdc.source.postgres.WIRE_OPTIONS``) and COPY only escapes it. Unescaping is exact: a field that
is ``\\N`` is NULL, and ``\\b \\f \\n \\r \\t \\v \\\\`` are the only sequences that COPY TO writes.
https://www.postgresql.org/docs/current/sql-copy.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from cdc.errors import ProtocolError
from cdc.source.postgres import Connection, copy_out, literal, translated

BATCH_ROWS: Final = 2_000
"""Rows handed on together: as many as the producer takes well in one call."""

Column = list[bytes | None]


class Block(NamedTuple):
    """Some rows, as columns. A value is its text, NULL is None."""

    columns: list[Column]
    rows: int


_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_MEANING = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
}


@contextmanager
def in_snapshot(conn: Connection, snapshot_name: str) -> Iterator[None]:
    """A read-only transaction that sees exactly what the snapshot sees."""
    with translated("entering the exported snapshot", "run headwater init again"):
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot_name)}".encode())
    try:
        yield
    except BaseException:
        conn.close()  # it may be in the middle of a COPY
        raise
    with translated("leaving the exported snapshot"):
        conn.execute("COMMIT")


def read_blocks(conn: Connection, statement: str, columns: int, doing: str) -> Iterator[Block]:
    """The rows of a COPY of ``columns`` columns, in blocks of up to ``BATCH_ROWS``."""
    for lines in copy_out(conn, statement, doing, BATCH_ROWS):
        yield parse_block(lines, columns)


def parse_block(lines: list[bytes], columns: int) -> Block:
    """COPY lines, each with its newline, to columns.

    One split for the whole block: inside a field tab and newline are always escaped.
    """
    if columns == 0:
        return Block([], len(lines))
    text = b"".join(lines)
    fields = text[:-1].replace(b"\n", b"\t").split(b"\t")
    if len(fields) != columns * len(lines):
        raise ProtocolError(
            f"COPY sent {len(fields)} fields in {len(lines)} rows of {columns} columns"
        )
    parsed: list[Column] = [fields[i::columns] for i in range(columns)]  # type: ignore[misc]
    backslashes = text.count(b"\\")
    if backslashes:
        nulls = [column.count(b"\\N") for column in parsed]
        escaped = backslashes > sum(nulls)
        parsed = [
            _unescaped(column) if escaped else _with_nulls(column) if null else column
            for column, null in zip(parsed, nulls, strict=True)
        ]
    return Block(parsed, len(lines))


def _with_nulls(column: Column) -> Column:
    return [None if field == b"\\N" else field for field in column]


def _unescaped(column: Column) -> Column:
    return [
        field
        if field is None or b"\\" not in field
        else None
        if field == b"\\N"
        else _ESCAPE.sub(_meaning, field)
        for field in column
    ]


def _meaning(match: re.Match[bytes]) -> bytes:
    return _MEANING.get(match[1], match[1])
