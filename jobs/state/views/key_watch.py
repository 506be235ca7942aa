"""Which keys of a view batches dirty while somebody looks: what ``headwater verify`` asks.

The table of dirty keys forgets a key once its row was written. While a watch is kept a trigger
remembers those that were dirtied, with the last batch that did it, in a table of the watch's own.
It ends with the block; what a session that was killed has left is removed by the next one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from psycopg.errors import LockNotAvailable

from cdc.kafka.broker import Offsets
from jobs.state.batch.stream_offsets import stream_offsets
from jobs.state.server.connection import Connection, translated
from jobs.state.views.generation_keys import KeyTables
from jobs.state.views.own_columns import own_columns
from jobs.state.views.view_generation import quoted

MOST_KEYS: Final = 200_000
"""More are not told: then any key may be among them."""
_LOCKS: Final = 0x7761_7463  # "watc": of advisory locks that say which watches are alive
_TRIES, _PAUSE_S = 10, 0.3
"""Of removing a watch; batches that have waited behind one go on before the next."""
_LEFT: Final = r"""
select substring(p.proname from '\d+')::int from pg_catalog.pg_proc p
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'headwater' and p.proname ~ '^watch_\d+$'
"""


class Watched(NamedTuple):
    """``keys`` are those that were dirtied, each value as text; None stands for all keys: the view
    has to be computed whole, or there are too many. ``offsets`` are where the mirrors' last batch
    ended, behind which nothing has been dirtied yet."""

    keys: list[tuple[str, ...]] | None
    offsets: Offsets


class KeyWatch:
    """The keys that were dirty at ``begin``, or have been dirtied since."""

    def __init__(self, conn: Connection, view: KeyTables, name: str) -> None:
        self._conn, self._view, self._name = conn, view, name
        self._batch = 0
        self._left: list[list[str] | None] = []

    def begin(self) -> None:
        """Look only at batches from here on, and at what those before have left to do."""
        # Read and not written to the table, where batches write at the same time.
        texts = ", ".join(f"{quoted(column.name)}::text" for column in self._view.key)
        query = (
            f"(select array[{texts}] from {self._view.dirty} limit %s) union all "
            "select null from headwater.views where id = %s and whole_seq is not null"
        )
        with translated("reading which keys are dirty"):
            row = self._conn.execute("select batch from headwater.progress").fetchone()
            assert row is not None, "the migrations write it"
            self._batch = row[0]
            found = self._conn.execute(query.encode(), (MOST_KEYS + 1, self._view.id))
            self._left = [key for (key,) in found]

    def look(self) -> Watched:
        """What was dirtied up to now."""
        query = f"select key from {self._name} where seq > %s limit %s".encode()
        with translated("reading which keys were dirtied"), self._conn.transaction():
            self._conn.execute("set transaction isolation level repeatable read")
            rows = self._conn.execute(query, (self._batch, MOST_KEYS + 1)).fetchall()
            offsets = stream_offsets(self._conn)
        keys = [*self._left, *(key for (key,) in rows)]
        if len(keys) > MOST_KEYS or None in keys:
            return Watched(None, offsets)
        return Watched(list({tuple(key): None for key in keys if key is not None}), offsets)


@contextmanager
def key_watch(conn: Connection, view: KeyTables, lock_ms: int | None = None) -> Iterator[KeyWatch]:
    """Watch a view's keys until the block ends. ``conn`` is in autocommit mode, and nobody else's.

    Batches that had dirtied keys before are waited for, and later ones wait meanwhile; with
    ``lock_ms`` no longer than that. Raises ``StateError`` for a right that is missing,
    ``RetryableError`` when the database is away or a batch takes longer.
    """
    number = secrets.randbelow(1 << 31)
    name = f"headwater.watch_{number}"
    with translated("watching which keys are dirtied"):
        if lock_ms is not None:
            conn.execute(f"set lock_timeout = {lock_ms}".encode())
        remove_left_over(conn)
        conn.execute("select pg_catalog.pg_advisory_lock(%s, %s)", (_LOCKS, number))
        with conn.transaction():
            for statement in _statements(view, name, f"watch_{number}"):
                conn.execute(statement.encode())
    try:
        yield KeyWatch(conn, view, name)
    finally:
        if not conn.closed:
            with translated("ending the watch of dirtied keys"):
                (_remove if lock_ms is None else _remove_or_leave)(conn, number)


def remove_left_over(conn: Connection) -> None:
    """Remove what watches have left whose sessions are gone."""
    for (number,) in conn.execute(_LEFT).fetchall():
        row = conn.execute(
            "select pg_catalog.pg_try_advisory_lock(%s, %s)", (_LOCKS, number)
        ).fetchone()
        if row is not None and row[0]:
            _remove(conn, number)


def _statements(view: KeyTables, name: str, trigger: str) -> Sequence[str]:
    texts = ", ".join(f"new.{quoted(column.name)}::text" for column in view.key)
    insert = f"insert into {name} (key, seq) values"
    update = "on conflict (key) do update set seq = excluded.seq"
    key = f"pg_catalog.jsonb_build_array({texts})"
    dirtied = f"begin {insert} ({key}, new.{own_columns(view.key).seq}) {update};"
    whole = f"begin {insert} ('null', new.whole_seq) {update};"
    return (
        f"create unlogged table {name} (key jsonb primary key, seq bigint not null)",
        f"create function {name}() returns trigger language plpgsql as "
        f"$watch$ {dirtied} return null; end $watch$",
        f"create function {name}_whole() returns trigger language plpgsql as "
        f"$watch$ {whole} return null; end $watch$",
        f"create trigger {trigger} after insert or update on {view.dirty} "
        f"for each row execute function {name}()",
        f"create trigger {trigger} after update of whole_seq on headwater.views for each row "
        f"when (new.id = {view.id} and new.whole_seq is not null) "
        f"execute function {name}_whole()",
    )


def _remove_or_leave(conn: Connection, number: int) -> None:
    """What batches hold for long is left to the next watch, as if this one had been killed."""
    for _ in range(_TRIES):
        try:
            _remove(conn, number)
        except LockNotAvailable:
            time.sleep(_PAUSE_S)
        else:
            return


def _remove(conn: Connection, number: int) -> None:
    with conn.transaction():
        conn.execute(f"drop function if exists headwater.watch_{number}() cascade".encode())
        conn.execute(f"drop function if exists headwater.watch_{number}_whole() cascade".encode())
        conn.execute(f"drop table if exists headwater.watch_{number}".encode())
    conn.execute("select pg_catalog.pg_advisory_unlock(%s, %s)", (_LOCKS, number))
