"""The digests of a new view's rows, computed in a session beside the one that loads them: what the
store is given is remembered while it is written, and not after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from jobs.state.server.connection import Connection
from jobs.state.views.rows_query import remember_sql
from jobs.state.views.view_generation import KeptView

Connect = Callable[[], Connection]


@contextmanager
def remembered(conn: Connection, view: KeptView, connect: Connect) -> Iterator[None]:
    """Inside the block rows of the snapshot of ``conn``'s transaction are written; behind it they
    are remembered. Raises psycopg's errors, and what ``connect`` raises.

    A block that fails leaves digests of what nobody holds: a load begins by forgetting them.
    """
    row = conn.execute(b"select pg_catalog.pg_export_snapshot()").fetchone()
    assert row is not None, "a function has one row"
    with ThreadPoolExecutor(1, "remember") as pool:
        remembering = pool.submit(_remember, view, row[0], connect)
        yield
        remembering.result()


def _remember(view: KeptView, snapshot: str, connect: Connect) -> None:
    with closing(connect()) as conn, conn.transaction():
        conn.execute(b"set transaction isolation level repeatable read")
        conn.execute(f"set transaction snapshot '{snapshot}'".encode())
        for statement in remember_sql(view):
            conn.execute(statement.encode())
