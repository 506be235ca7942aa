"""The generations of views whose dirty keys are collected: ``headwater.views``.

Which generation readers see, and which is being built, is told by ``generations.json`` beside the
view's state (``jobs.generations.generation_record``), which other commands read too. Here is what
batches and keepers need of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cdc.errors import StateError, ViewError
from jobs.state.groups.sums import GROUP_SCHEMA
from jobs.state.server.connection import Connection
from jobs.state.views.view_generation import DIRTY_SCHEMA, SHOWN_SCHEMA
from views.parse.table_references import tables_read

_COLUMNS: Final = "id, name, generation, sql, key, store, state, coalesce(error, ''), history"
QUEUE_SCHEMA: Final = "queue"
FEED_ROWS_SCHEMA: Final = "feed_rows"
FEED_LOG_SCHEMA: Final = "feed_log"
_SCHEMAS: Final = (
    DIRTY_SCHEMA, SHOWN_SCHEMA, QUEUE_SCHEMA, GROUP_SCHEMA, FEED_ROWS_SCHEMA, FEED_LOG_SCHEMA,
)  # fmt: skip
"""In each of which a generation may have a table of its own, ``v<id>``."""
BUILDING: Final = "building"
LOADED: Final = "loaded"
PAUSED: Final = "paused"
MOVES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {BUILDING: (LOADED, PAUSED), LOADED: (LOADED, PAUSED), PAUSED: (LOADED, PAUSED)}
)
"""What each state of a generation may be followed by. One that readers saw before the state
database knew it goes from ``building`` to ``paused``: its store is filled."""


class ViewRecord(NamedTuple):
    """One generation. ``state``: ``building`` until its store holds the load, then ``loaded``, and
    ``paused`` when batches do not collect its keys (``jobs.state.views.missed_changes``). ``error``
    says why it cannot be kept now, "" where it can. ``history``: as what its store keeps what rows
    were, "" where it does not."""

    id: int
    name: str
    generation: int
    sql: str
    key: tuple[str, ...]
    store: str
    state: str
    error: str = ""
    history: str = ""

    @property
    def is_loaded(self) -> bool:
        """Whether its store holds what it was filled with."""
        return self.state in (LOADED, PAUSED)


def tables_of(name: str, sql: str) -> frozenset[str]:
    """The tables of a view, ``schema.table``; none of SQL that no view can be made of."""
    try:
        return frozenset(table.name for table in tables_read(name, sql))
    except ViewError:
        return frozenset()


def view_records(conn: Connection, name: str = "") -> list[ViewRecord]:
    """All generations, of one view or of all, in the order of their numbers."""
    query = (
        f"select {_COLUMNS} from headwater.views where %(name)s in ('', name) "
        "order by name, generation"
    )
    return [_record(row) for row in conn.execute(query.encode(), {"name": name})]


def add_view(
    conn: Connection,
    name: str,
    generation: int,
    sql: str,
    key: Sequence[str],
    store: str,
    history: str = "",
) -> ViewRecord:
    """A generation begins to be built; in the caller's transaction, with its tables."""
    query = (
        "insert into headwater.views (name, generation, sql, key, store, history, state) "
        f"values (%s, %s, %s, %s, %s, %s, '{BUILDING}') returning {_COLUMNS}"
    )
    values = (name, generation, sql, list(key), store, history)
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None, "what is inserted is returned"
    return _record(row)


def note_loaded(conn: Connection, view_id: int) -> None:
    """The store holds the load; in the transaction that remembers what it was given."""
    _move(conn, view_id, LOADED)


def note_paused(conn: Connection, view_id: int) -> None:
    """Batches have passed over the generation."""
    _move(conn, view_id, PAUSED)


def _move(conn: Connection, view_id: int, state: str) -> None:
    query = b"select name, generation, state from headwater.views where id = %s for update"
    row = conn.execute(query, (view_id,)).fetchone()
    if row is not None:  # else it was dropped meanwhile
        name, generation, before = row
        check_move(name, generation, before, state)
        query = b"update headwater.views set state = %s where id = %s"
        conn.execute(query, (state, view_id))


def check_move(name: str, generation: int, before: str, then: str) -> None:
    """Raises ``StateError`` for a move that ``MOVES`` does not have."""
    if then not in MOVES.get(before, ()):
        raise StateError(
            f"view {name}: generation {generation} is {before} and cannot become {then}",
            f"run `headwater view rebuild {name}`, which builds it again",
        )


def note_error(conn: Connection, view_id: int, error: str) -> None:
    """Write why a generation cannot be kept now; "" that it can."""
    query = b"update headwater.views set error = nullif(%s, '') where id = %s"
    conn.execute(query, (error, view_id))


def note_unbuilt(conn: Connection, name: str, error: str) -> None:
    """Write why a view that readers see nothing of cannot be built; "" that it can, or is."""
    if error:
        conn.execute(
            b"insert into headwater.unbuilt_views (name, error) values (%s, %s) "
            b"on conflict (name) do update set error = excluded.error",
            (name, error),
        )
    else:
        conn.execute(b"delete from headwater.unbuilt_views where name = %s", (name,))


def unbuilt_errors(conn: Connection) -> dict[str, str]:
    """Why views cannot be built, by their names."""
    return dict(conn.execute(b"select name, error from headwater.unbuilt_views").fetchall())


def forget_keyed(conn: Connection, types: Sequence[str]) -> None:
    """Forget the generations, but for histories, that have a key of one of these types, given as
    SQL; in the caller's transaction."""
    query = (
        b"select distinct v.id from headwater.views v "
        b"join pg_catalog.pg_class c on c.relname = 'v' || v.id "
        b"join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = %s "
        b"join pg_catalog.pg_attribute a on a.attrelid = c.oid "
        b"join pg_catalog.pg_type t on t.oid = a.atttypid "
        b"where v.history = '' and (t.oid = any(%s::regtype[]) or t.typelem = any(%s::regtype[]))"
    )
    for (id_,) in conn.execute(query, (SHOWN_SCHEMA, list(types), list(types))).fetchall():
        forget_view(conn, id_)


def forget_view(conn: Connection, view_id: int) -> None:
    """Remove a generation's tables and its record."""
    with conn.transaction():
        for schema in _SCHEMAS:
            conn.execute(f"drop table if exists {schema}.v{view_id}".encode())
        conn.execute(b"delete from headwater.views where id = %s", (view_id,))


def _record(row: Sequence[Any]) -> ViewRecord:
    id_, name, generation, sql, key, store, state, error, history = row
    if state not in MOVES:
        raise StateError(
            f"view {name}: generation {generation} has the unknown state {state!r}",
            "use the version of Headwater that wrote the state database, or empty it",
        )
    return ViewRecord(id_, name, generation, sql, tuple(key), store, state, error, history)
