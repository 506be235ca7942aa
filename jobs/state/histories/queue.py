"""The changes of a history that its store does not have yet: put there by batches, taken in order.

A row holds the values of the view's columns as texts, and the number of the columns that it was
made for: DDL may change them while it waits. ``UNTOLD`` in place of a change says that nobody
collected changes for a while: whoever writes the store finds what it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from cdc.lsn import Position
from jobs.state.batch.stream_offsets import Progress, advance
from jobs.state.histories.sql import BEGINS, queue_sql, queue_table, whole_sql
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.server.connection import Connection, translated
from jobs.state.views.store_rows import RowForm
from jobs.state.views.view_generation import ViewGeneration
from views.histories import KeyColumn

UNTOLD: Final = "x"


@dataclass(frozen=True, slots=True)
class History:
    """One generation of a history. ``keys`` are its key's columns; ``shape`` numbers its columns;
    ``relation`` is the mirror of its table."""

    view: ViewGeneration
    form: RowForm
    keys: tuple[KeyColumn, ...]
    shape: int
    relation: str

    @property
    def id(self) -> int:
        return self.view.id

    @property
    def table(self) -> str:
        """``schema.table``."""
        (label,) = self.view.plan.reads
        return label

    def whole(self) -> str:
        """A SELECT of its rows as the mirror has them, as ``history_sql.whole_sql`` does."""
        return whole_sql(self.view, self.form, self.keys, self.relation)


class Queued(NamedTuple):
    """A change that waits; ``texts`` are the view's values, None for TRUNCATE and ``UNTOLD``."""

    seq: int
    batch: int
    commit_lsn: int
    ordinal: int
    committed_us: int | None
    op: str
    gone: bool
    shape: int
    texts: list[str | None] | None


class Taken(NamedTuple):
    """The changes that have waited longest, and the last batch that was applied when they were
    taken. ``next_batch`` is that of the first change behind them, None where none is."""

    changes: list[Queued]
    batch: int
    next_batch: int | None


def make_queue(conn: Connection, view_id: int) -> None:
    """Make the queue of a generation, in the transaction that begins it."""
    conn.execute(queue_sql(view_id).encode())
    _note_begin(conn, view_id)


def _note_begin(conn: Connection, view_id: int) -> None:
    """Batches collect all changes from here on; in a transaction that keeps them waiting."""
    conn.execute(
        b"update headwater.views v set plan = plan || jsonb_build_object(%s::text, p.lsn) "
        b"from headwater.progress p where v.id = %s",
        (BEGINS, view_id),
    )


def note_columns(conn: Connection, view_id: int, columns: StructType) -> int:
    """The number of these columns among those that the generation has had."""
    text = columns.json()
    row = conn.execute(
        b"select shape from headwater.history_columns where view_id = %s and columns = %s",
        (view_id, text),
    ).fetchone()
    if row is None:
        row = conn.execute(
            b"insert into headwater.history_columns (view_id, columns) values (%s, %s) "
            b"returning shape",
            (view_id, text),
        ).fetchone()
    assert row is not None, "what is inserted is returned"
    return int(row[0])


def columns_of(conn: Connection, view_id: int, shape: int) -> StructType:
    """The columns of this number."""
    query = b"select columns from headwater.history_columns where view_id = %s and shape = %s"
    row = conn.execute(query, (view_id, shape)).fetchone()
    assert row is not None, "a number is noted before rows have it"
    return StructType.fromJson(json.loads(row[0]))


def take(conn: Connection, view_id: int, at_most: int) -> Taken:
    """Changes of one set of columns, in the order that they were queued in."""
    query = (
        "select p.batch, q.* from headwater.progress p left join lateral "
        "(select seq, batch, commit_lsn, ordinal, committed_us, op, gone, shape, texts "
        f"from {queue_table(view_id)} order by seq limit %s) q on true order by q.seq"
    )
    rows = conn.execute(query.encode(), (at_most + 1,), prepare=True).fetchall()
    found = [Queued(*row[1:]) for row in rows if row[1] is not None]
    some = _of_one_kind(found[:at_most])
    behind = found[len(some)].batch if len(some) < len(found) else None
    return Taken(some, rows[0][0], behind)


def _of_one_kind(changes: Sequence[Queued]) -> list[Queued]:
    """The first ones, as far as they have the same columns; ``UNTOLD`` is alone."""
    some: list[Queued] = []
    for one in changes:
        if some and (one.shape != some[0].shape or UNTOLD in (one.op, some[0].op)):
            break
        some.append(one)
    return some


def settle(conn: Connection, view_id: int, seq: int) -> None:
    """The store holds what was queued up to ``seq``."""
    query = f"delete from {queue_table(view_id)} where seq <= %s"
    conn.execute(query.encode(), (seq,), prepare=True)


def reached(conn: Connection, view_id: int, taken: Taken) -> int:
    """The last batch that the store holds whole, which has what was taken and is settled. -1 while
    it lacks changes of before that nobody knows: where they are queued says nothing of when they
    were."""
    if taken.next_batch is None:
        return taken.batch
    query = f"select exists (select from {queue_table(view_id)} where op = '{UNTOLD}')"
    (lacks,) = conn.execute(query.encode()).fetchone() or (False,)
    return -1 if lacks else taken.next_batch - 1


def waiting(conn: Connection, view_id: int) -> int:
    """How many changes the store does not hold yet."""
    query = f"select count(*) from {queue_table(view_id)}"
    (found,) = conn.execute(query.encode()).fetchone() or (0,)
    return int(found)


def make_up_for_history(conn: Connection, history: History) -> int:
    """Queue ``UNTOLD``, for a history that batches passed over for a while: what happened meanwhile
    is known to nobody. Batches collect its changes already. The batch that it is queued under.

    It stands where the mirror was filled or truncated: of what was deleted since then there are
    tombstones, and what has yet to come, of any partition, is later.
    """
    with translated(f"looking for what history {history.view.name} lacks"), conn.transaction():
        mirror = read_mirrors(conn)[history.table]
        at = max(Position(mirror.fill_lsn, 0), mirror.truncated)
        progress = advance(conn)
        conn.execute(
            f"insert into {queue_table(history.id)} "
            "(batch, commit_lsn, ordinal, committed_us, op, gone, shape) "
            f"values (%s, %s, %s, %s, '{UNTOLD}', true, %s)".encode(),
            (progress.batch, *at, committed_us(progress), history.shape),
        )
        _note_begin(conn, history.id)
    return progress.batch


def note_adding(conn: Connection, view_id: int, batch: int, rows: int) -> int:
    """Note how many rows are about to be added for what was ``UNTOLD`` in a batch; how many that
    were, where they are there already: whoever added them was killed before saying so."""
    row = conn.execute(
        b"update headwater.views set plan = plan || jsonb_build_object('adding', case "
        b"when %(rows)s::bigint = 0 and (plan->'adding'->>'batch')::bigint = %(batch)s "
        b"then plan->'adding' else jsonb_build_object('batch', %(batch)s::bigint, "
        b"'rows', %(rows)s::bigint) end) where id = %(id)s "
        b"returning (plan->'adding'->>'rows')::bigint",
        {"id": view_id, "batch": batch, "rows": rows},
    ).fetchone()
    return rows if row is None else int(row[0])


def note_added(conn: Connection, view_id: int, batch: int, rows: int) -> None:
    """How many rows were added for what was ``UNTOLD`` in a batch."""
    conn.execute(
        b"update headwater.views set plan = plan || jsonb_build_object('added', "
        b"jsonb_build_object('batch', %s::bigint, 'rows', %s::bigint)) where id = %s",
        (batch, rows, view_id),
    )


def added(conn: Connection, view_id: int, batch: int) -> int | None:
    """The same, once it is done; None before."""
    row = conn.execute(
        b"select (plan->'added'->>'rows')::bigint from headwater.views "
        b"where id = %s and (plan->'added'->>'batch')::bigint >= %s",
        (view_id, batch),
    ).fetchone()
    return None if row is None else int(row[0])


def committed_us(progress: Progress) -> int | None:
    """When the newest change that was applied had been committed, in microseconds since 1970."""
    at = progress.committed_at
    return None if at is None else round(at.timestamp() * 1_000_000)
