"""Reading a table in an exported snapshot, through COPY in text format.

The text form of a value is the one that the stream carries: the session's settings decide it
(``cdc.source.postgres.WIRE_OPTIONS``) and COPY only escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from cdc.errors import RetryableError, SourceError
from cdc.source.copy_out import copy_out
from cdc.source.errors import translated
from cdc.source.postgres import Connection, literal

BLOCK_ROWS: Final = 2_000
"""Rows handed on together: their columns and events fit a core's cache."""
BLOCK_BYTES: Final = 4 << 20
"""What a block may hold before its last row: bounds memory when rows are wide."""


_TRANSACTION_TIMEOUT_SINCE: Final = 170000


class Block(NamedTuple):
    """Some rows, as COPY's lines."""

    copied: bytes
    rows: int


@contextmanager
def in_snapshot(conn: Connection, snapshot_name: str) -> Iterator[None]:
    """A read-only transaction that sees exactly what the snapshot sees."""
    doing = "entering the exported snapshot"
    try:
        with translated(doing):
            if conn.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
                conn.execute("SET transaction_timeout = 0")
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot_name)}".encode())
    except SourceError as error:
        # Its session is gone, as after a restart of the server: a new one can be taken.
        raise RetryableError(f"{doing}: it is gone", "run the same command again") from error
    try:
        yield
    except BaseException:
        conn.close()  # it may be in the middle of a COPY
        raise
    with translated("leaving the exported snapshot"):
        conn.execute("COMMIT")


def read_blocks(conn: Connection, statement: str, doing: str) -> Iterator[Block]:
    """The rows of a COPY, in blocks of up to ``BLOCK_ROWS`` and about ``BLOCK_BYTES``."""
    for copied, rows in copy_out(conn, statement, doing, BLOCK_ROWS, BLOCK_BYTES):
        yield Block(copied, rows)
