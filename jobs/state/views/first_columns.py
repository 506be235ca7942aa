"""The columns that a generation had when its store was filled.

A column that its tables got later, and that it shows, is NULL in all rows that were there: a store
without the column holds these rows already. So their digest is the one that they had before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg.types.json import Jsonb

from jobs.state.server.connection import Connection

_FIELD: Final = "first_columns"


def remember_first_columns(conn: Connection, view_id: int, columns: Sequence[str]) -> None:
    """Note them, in the transaction that begins the generation."""
    conn.execute(
        b"update headwater.views set plan = plan || %s where id = %s",
        (Jsonb({_FIELD: list(columns)}), view_id),
    )


def first_columns(conn: Connection, view_id: int) -> tuple[str, ...]:
    """They, in their order; none where nobody noted them."""
    query = b"select plan -> %s from headwater.views where id = %s"
    row = conn.execute(query, (_FIELD, view_id)).fetchone()
    return tuple(row[0] or ()) if row else ()
