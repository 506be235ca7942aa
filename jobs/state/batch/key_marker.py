"""The keys that a batch touches, for all views at once: in the transaction that applies it.

They are looked for on the state before, with the old images, and on the state after, with the new
ones; some queries want both in either state (``views.maintain``). What a change of a table can only
be answered to by computing a view whole is noted too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from cdc.errors import HeadwaterError, RetryableError, StateError
from jobs.state.groups.changes import GroupChanges
from jobs.state.server.connection import Connection, numbered, translated
from jobs.state.views.dirty_keys import Images, State, mark_sql
from jobs.state.views.view_generation import ViewGeneration
from jobs.state.views.whole_recomputation import mark_whole


class UnfoundKeysError(StateError):
    """Which keys of a view a batch touches cannot be computed, as where a join casts a value that
    has not the form of the type. ``view`` is the id of its generation."""

    def __init__(self, view: int, fault: HeadwaterError) -> None:
        super().__init__(fault.message, fault.hint)
        self.view = view


class KeyMarker:
    """Marks the dirty keys of some views, for batches over some mirrors. Use in one session.

    Its methods raise ``UnfoundKeysError`` for the first view whose keys they cannot find.

    ``images`` are the relations of the changed rows' images, by table; those of a table without a
    change are empty.
    """

    def __init__(self, views: Sequence[ViewGeneration], images: Images) -> None:
        self._views, self._images = tuple(views), images
        self._sql: dict[tuple[int, State, bool], bytes | None] = {}
        self._gates: dict[int, dict[str, list[str]]] = {}
        self._large = False
        self._groups = {
            view.id: GroupChanges(view, view.groups, images) for view in views if view.groups
        }

    def before(
        self, conn: Connection, tables: frozenset[str], batch: int, large: bool = False
    ) -> set[int]:
        """On the state before; the ids of the views that have a dirty key of it."""
        self._large = large
        self._gates = {view.id: self._gated(conn, view, tables) for view in self._reading(tables)}
        for view in self._reading(tables):
            if view.id in self._groups:
                self._groups[view.id].before(conn, tables)
        return self._marked(conn, tables, batch, "before")

    def after(self, conn: Connection, tables: frozenset[str], batch: int) -> set[int]:
        """On the state after; the ids of the views that have a dirty key of it, or are to be made
        whole."""
        found = self._marked(conn, tables, batch, "after")
        for view in self._reading(tables):
            if view.id in self._groups:
                self._groups[view.id].after(conn)
            whole = tables & view.plan.whole_tables.keys()
            if whole or self._gated(conn, view, tables) != self._gates[view.id]:
                mark_whole(conn, view, batch)
                found.add(view.id)
        return found

    def _marked(
        self, conn: Connection, tables: frozenset[str], batch: int, state: State
    ) -> set[int]:
        """Of all views in one exchange with the server, which runs one statement while the next
        is on its way."""
        asked: list[tuple[ViewGeneration, psycopg.RawCursor[Any]]] = []
        try:
            with conn.pipeline():
                for view in self._reading(tables):
                    if (query := self._query(view, state)) is not None:
                        cursor = numbered(conn)
                        asked.append((view, cursor))
                        cursor.execute(query, (batch,), prepare=True)
        except psycopg.Error as error:
            refused = next((view for view, cursor in asked if cursor.pgresult is None), None)
            with _finding(refused):
                raise error
        return {view.id for view, cursor in asked if cursor.rowcount}

    def _query(self, view: ViewGeneration, state: State) -> bytes | None:
        of = (view.id, state, self._large)
        if of not in self._sql:
            query = mark_sql(view, self._images, state, self._large)
            self._sql[of] = None if query is None else query.encode()
        return self._sql[of]

    def _reading(self, tables: frozenset[str]) -> list[ViewGeneration]:
        return [view for view in self._views if tables & view.plan.reads.keys()]

    def _gated(
        self, conn: Connection, view: ViewGeneration, tables: frozenset[str]
    ) -> dict[str, list[str]]:
        """What the gates of a view's touched tables show in this state, in PostgreSQL's texts:
        Python lacks values, and takes some for equal that SQL tells apart."""
        found: dict[str, list[str]] = {}
        for gate in view.plan.gates:
            if gate.table in tables:
                query = f"select g::text from ({gate.sql(view.relation)}) g"
                with _finding(view):
                    shown = conn.execute(query.encode(), prepare=True).fetchall()
                found[query] = sorted(text for (text,) in shown)
        return found


@contextmanager
def _finding(view: ViewGeneration | None) -> Iterator[None]:
    name = "" if view is None else f" of view {view.name}"
    try:
        with translated(f"finding the keys{name} that a batch touches"):
            yield
    except HeadwaterError as fault:
        if view is None or isinstance(fault, RetryableError):
            raise
        raise UnfoundKeysError(view.id, fault) from fault
