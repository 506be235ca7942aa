"""Setting right the rows of a view of the state database that differ, and no others.

Their keys are made dirty there, and what the store was given of them is forgotten: whoever keeps
the view makes the rows of the mirrors and writes them, or deletes those that the view has not. A
row that differs once more is beyond this: the mirrors are not what the tables are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from cdc.errors import StateError
from cdc.kafka.broker import Offsets
from cdc.plural import plural
from cdc.source.errors import sqlstate
from jobs.state.groups.tables import drop_group_table
from jobs.state.server.apply_lock import database_holder
from jobs.state.server.connection import Connection, translated
from jobs.state.views.generation_keys import KeyTables
from jobs.state.views.repair import is_written, make_anew
from verification.source_rows import SourceSnapshot
from verification.values.canonical_form import unpacked

_POLL_S: Final = 0.05
_DATA_EXCEPTION: Final = "22"


class RepairFromState:
    """A ``Repair``; each key that differs is made anew once. ``conn`` is in autocommit mode.

    ``awaiting`` are packed keys that nobody has written within ``timeout_s``: they are dirty, and
    whoever applies the view next writes them.
    """

    def __init__(
        self,
        conn: Connection,
        view: KeyTables,
        timeout_s: float,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._conn, self._view = conn, view
        self._timeout_s, self._on_step = timeout_s, on_step
        self._made: set[bytes] = set()
        self.awaiting: set[bytes] = set()

    def write(
        self,
        source: SourceSnapshot,
        present: Collection[bytes],
        extra: Mapping[bytes, tuple[object, ...]],
        undecided: Collection[bytes],  # noqa: ARG002
        before: Offsets,  # noqa: ARG002
    ) -> set[bytes]:
        found = {*present, *extra}
        fresh, beyond = found - self._made, found & self._made
        self._made |= found
        if not fresh:
            return beyond
        whole = [key for key in sorted(fresh) if None not in unpacked(key)]
        texts = source.key_texts(whole)
        marked, batch = self._mark(texts)
        beyond |= fresh - marked
        if not self._is_written(batch, len(marked)):
            self.awaiting |= marked
            beyond |= marked
        return beyond

    def _mark(self, texts: Mapping[bytes, Sequence[str]]) -> tuple[set[bytes], int]:
        """Make keys dirty; those that could be, and the last batch that did it. Counts and sums
        that groups are kept by may be what is wrong: they are made of their rows."""
        with translated("marking rows that are to be written again"):
            drop_group_table(self._conn, self._view.id)
        try:
            return set(texts), make_anew(self._conn, self._view, texts.values()).batch
        except StateError as error:
            if not _is_unreadable(error):
                raise
        # One of them stands in the store and is no value of the key's type.
        marked, batch = set[bytes](), 0
        for key, text in texts.items():
            try:
                batch = make_anew(self._conn, self._view, [text]).batch
            except StateError as error:
                if not _is_unreadable(error):
                    raise
            else:
                marked.add(key)
        return marked, batch

    def _is_written(self, batch: int, rows: int) -> bool:
        deadline = time.monotonic() + self._timeout_s
        while not is_written(self._conn, self._view, batch):
            if not database_holder(self._conn) or time.monotonic() > deadline:
                return False
            self._on_step(f"waiting for headwater apply to write {plural(rows, 'row')}")
            time.sleep(_POLL_S)
        return True


def _is_unreadable(error: StateError) -> bool:
    return sqlstate(error).startswith(_DATA_EXCEPTION)
