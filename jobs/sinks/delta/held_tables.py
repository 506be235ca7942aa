"""Tables on this machine that a thread has opened, kept while nobody else writes them.

To open a table is to read its log back to the last checkpoint, up to a hundred commits: tens of
milliseconds, several times a batch. A writer's own table moves on with what it commits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, NamedTuple

from deltalake import DeltaTable

_MOST: Final = 32
"""Of a thread: one of a lane of views has those of its views."""


class _Commit(NamedTuple):
    """A file of a log. A table that was removed and made anew has others."""

    version: int
    inode: int
    written_ns: int


class _Held(NamedTuple):
    table: DeltaTable
    commit: _Commit


class HeldTables(threading.local):
    """Of the thread that asks: what it does with a table no other one sees."""

    def __init__(self) -> None:
        self._held = OrderedDict[str, _Held]()

    def newest(self, path: str, folder: Path) -> DeltaTable:
        """The table at its newest version, which moves on by what is written through it and by
        nothing else. ``folder`` is where it is. Raises what delta-rs raises."""
        log = folder / "_delta_log"
        held = self._held.pop(path, None)
        table = held.table if held and _is_newest(held, log) else DeltaTable(path)
        if (commit := _commit(log, table.version())) is not None:
            self._held[path] = _Held(table, commit)
        if len(self._held) > _MOST:
            self._held.popitem(last=False)
        return table


def _is_newest(held: _Held, log: Path) -> bool:
    return (
        _commit(log, held.commit.version) == held.commit
        and _commit(log, held.table.version() + 1) is None
    )


def _commit(log: Path, version: int) -> _Commit | None:
    """None if there is none, or none any more: a log is cleaned of what checkpoints have."""
    try:
        found = (log / f"{version:020}.json").stat()
    except OSError:
        return None
    return _Commit(version, found.st_ino, found.st_mtime_ns)
