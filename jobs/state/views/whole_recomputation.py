"""Views that a change makes to be computed whole: which batch asked for it, and whether it is done.

``headwater.views`` has, for each generation, the last and the first batch since it was computed
(``whole_seq``, ``whole_first_seq``): as a dirty key has, for all keys at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc.errors import ViewError
from jobs.state.batch.stream_offsets import advance
from jobs.state.server.connection import Connection, translated
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import ViewGeneration


def mark_whole(conn: Connection, view: ViewGeneration, batch: int) -> None:
    """A batch has changed what no key can be told of; in its transaction."""
    conn.execute(
        b"update headwater.views set whole_seq = %(batch)s, "
        b"whole_first_seq = coalesce(whole_first_seq, %(batch)s) where id = %(id)s",
        {"batch": batch, "id": view.id},
        prepare=True,
    )


def is_always_whole(view: ViewGeneration) -> bool:
    """Whether each of its turns computes all of it: at every change, or as time passes."""
    return view.plan.mode == "whole" or view.plan.clock


def too_large(view: ViewGeneration, at_most: int) -> ViewError:
    """Of a view that is to be computed whole and has more rows than that."""
    return ViewError(
        f"view {view.name} has more than {at_most:,} rows and can only be recomputed as a "
        f"whole: {view.plan.reason or 'it reads the clock'}",
        "raise apply.whole_rows, or change the SQL so that it can be maintained incrementally "
        "(docs/sql.md)",
    )


def tick(conn: Connection, views: Iterable[ViewGeneration]) -> int:
    """Time has passed for views that read the clock: all of each is to be computed, under a batch
    of its own, so that what is written then is newer than what was before. ``conn`` is in
    autocommit mode."""
    with translated("marking the views that read the clock"), conn.transaction():
        batch = advance(conn).batch
        for view in views:
            mark_whole(conn, view, batch)
    return batch


def settle_whole(conn: Connection, view: ViewGeneration, batch: int) -> None:
    """The store holds the view as of ``batch``. What a later batch asks for stays asked for."""
    conn.execute(
        b"update headwater.views set whole_seq = null, whole_first_seq = null "
        b"where id = %s and whole_seq <= %s",
        (view.id, batch),
        prepare=True,
    )
    # What a batch is at now has a later one behind it (``dirty_keys.settle``).
    seq = own_columns(view.key).seq
    locked = f"select ctid from {view.dirty} where {seq} <= %s for update skip locked"
    conn.execute(f"delete from {view.dirty} where ctid = any(array({locked}))".encode(), (batch,))
