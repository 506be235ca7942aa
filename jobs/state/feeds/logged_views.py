"""Whether the changes of a view are logged as an alert needs them, and what helps if not."""

from __future__ import annotations

from typing import Final

from cdc.errors import HeadwaterError, RetryableError
from cdc.source.errors import sqlstate
from jobs.state.server.connection import Connection, translated

_OLDER: Final = ("42P01", "42703")
"""A table or a column lacks: the state database is of an older Headwater."""


def refuse_unlogged(conn: Connection, view: str) -> None:
    """Raise ``RetryableError`` where what readers of a view see has no log, or one without the row
    before an update."""
    query = b"select old_rows from headwater.feeds where name = %s and shown"
    try:
        with translated(f"looking for the changes of view {view}"):
            row = conn.execute(query, (view,)).fetchone()
    except HeadwaterError as error:
        if sqlstate(error) not in _OLDER:
            raise
        row = (False,)
    if row is None:
        raise without_log(view)
    if not row[0]:
        raise without_old_rows(view)


def without_log(view: str) -> RetryableError:
    """Of a view of which readers see nothing, or what was built without a log."""
    return RetryableError(
        f"view {view}: what its readers see was built without a change stream, or not yet",
        f"run `headwater view rebuild {view}`",
    )


def without_old_rows(view: str) -> RetryableError:
    """Of a view whose changes are logged without the row before."""
    return RetryableError(
        f"view {view}: `headwater apply` does not know that an alert wants the row before an "
        "update",
        "restart `headwater apply`",
    )
