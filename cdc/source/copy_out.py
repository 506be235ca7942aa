"""COPY to us: many rows taken together, as they come."""

from __future__ import annotations

import select
from collections.abc import Iterator

from psycopg import pq

from cdc.source.errors import failure, translated
from cdc.source.postgres import Connection


def copy_out(
    conn: Connection, statement: str, doing: str, most: int, most_bytes: int
) -> Iterator[tuple[bytes, int]]:
    """Run ``COPY ... TO STDOUT``; yield what up to ``most`` messages hold, and their number.

    In text format one message is one row with its newline. Fewer come together when they have
    ``most_bytes``. Raises our errors, also when the server fails midway.
    """
    with translated(doing):
        conn.pgconn.send_query(statement.encode())
        while conn.pgconn.is_busy():
            _wait_for_input(conn)
        started = conn.pgconn.get_result()
        if started is None or started.status != pq.ExecStatus.COPY_OUT:
            raise failure(started)
        take = conn.pgconn.get_copy_data
        taken, rows = bytearray(), 0
        while True:
            length, data = take(1)
            if length > 0:
                taken += data
                rows += 1
                if rows >= most or len(taken) >= most_bytes:
                    full = bytes(taken), rows
                    taken, rows = bytearray(), 0
                    yield full
            elif length == 0:
                _wait_for_input(conn)
            else:
                break
        if rows:
            yield bytes(taken), rows
        ended = conn.pgconn.get_result()
        while conn.pgconn.get_result() is not None:
            pass
        if ended is None or ended.status != pq.ExecStatus.COMMAND_OK:
            raise failure(ended)


def _wait_for_input(conn: Connection) -> None:
    select.select([conn.pgconn.socket], [], [])  # TCP keepalives bound it
    conn.pgconn.consume_input()
