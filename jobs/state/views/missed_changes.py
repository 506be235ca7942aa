"""Generations that batches have passed over for a while: one that readers left, one that was held
back, one of a view that no process kept.

Nobody knows which of their keys were touched meanwhile, so all of them are dirty. What the store
was given is known still: only rows that differ are written.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from jobs.state.batch.stream_offsets import advance
from jobs.state.server.connection import Connection, translated
from jobs.state.views.dirty_keys import SURE, mark_all_sql
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import ViewGeneration, quoted
from jobs.state.views.view_record import LOADED, PAUSED, tables_of, view_records
from jobs.state.views.whole_recomputation import mark_whole

_DOUBTFUL: Final = 1
"""The same of keys that somebody may have written meanwhile: batches count from 1."""


def leave_all_but(conn: Connection, kept: Collection[int]) -> None:
    """Note that batches collect no keys from now on but for these generations, by their ids."""
    query = b"update headwater.views set state = %s where state = %s and id <> all(%s)"
    conn.execute(query, (PAUSED, LOADED, list(kept)), prepare=True)


def leave_readers(conn: Connection, label: str) -> None:
    """Note the same of the loaded generations that read this table, in the transaction that fills
    its mirror: the stream goes on behind what the fill has read."""
    loaded = [one for one in view_records(conn) if one.state == LOADED]
    read = [one.id for one in loaded if label in tables_of(one.name, one.sql)]
    query = b"update headwater.views set state = %s where state = %s and id = any(%s)"
    conn.execute(query, (PAUSED, LOADED, read))


def make_up_for(conn: Connection, view: ViewGeneration) -> int:
    """Make all keys dirty that a generation has or had, so that it becomes what the mirrors say;
    the batch they are dirty under. Batches collect its keys already.

    They are dirty since before all batches: which of those its store lacks is not known, so the
    view has reached none of them before all keys are written.
    """
    with translated(f"looking for all keys of view {view.name}"), conn.transaction():
        batch = advance(conn).batch
        seq, first = own_columns(view.key)[:2]
        again = f"update {view.dirty} set {first} = {_DOUBTFUL} where {first} = {SURE}"
        conn.execute(again.encode())
        conn.execute(mark_all_sql(view).encode(), {"batch": batch, "since": SURE})
        made = ", ".join(f"w.{quoted(column.name)}" for column in view.key)
        conn.execute(
            f"insert into {view.dirty} ({view.key_names}, {seq}, {first}) "
            f"select {made}, {batch}, {SURE} from ({view.plan.whole(view.relation)}) w "
            f"on conflict ({view.key_names}) do nothing".encode()
        )
    return batch


def makes_up(waiting: int | None) -> bool:
    """Whether some of all keys are left, by what a view waits for (``dirty_keys.waits_since``)."""
    return waiting is not None and waiting <= _DOUBTFUL


def mark_every_key(conn: Connection, view: ViewGeneration) -> None:
    """Make all keys dirty that its tables have, though its rows may be such that they cannot be
    made; in the caller's transaction. Batches collect its keys already: of those the store holds
    nothing either."""
    batch = advance(conn).batch
    if view.plan.whole_tables or not view.plan.key_queries:
        mark_whole(conn, view, batch)
        return

    def nothing(table: str) -> str:
        return f"(select * from {view.relation(table)} limit 0)"

    seq, first = own_columns(view.key)[:2]
    conn.execute(f"update {view.dirty} set {first} = {SURE}".encode())
    for query in view.plan.key_queries:
        all_rows = f"(select * from {view.relation(query.table)})"
        found = query.sql(view.relation, all_rows, nothing)
        conn.execute(
            f"insert into {view.dirty} ({view.key_names}, {seq}, {first}) "
            f"select {view.key_names}, {batch}, {SURE} from ({found}) found "
            f"on conflict ({view.key_names}) do nothing".encode()
        )
