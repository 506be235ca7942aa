"""A command at work, and what the engine does for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobs.run.builds.generation_files import GenerationFiles
from jobs.run.builds.step_log import Steps
from jobs.run.process_parts import Parts
from jobs.run.views.view_entry import ViewEntry
from jobs.run.views.view_registry import ViewRegistry
from jobs.state.dead_letters.faulty_records import FaultyRecord
from jobs.state.server.connection import Connection
from jobs.state.views.commands import Command


class Help(Protocol):
    """What the engine does for commands."""

    def spare_mirrors(self) -> None:
        """Mirrors that no view needs are to be dropped."""

    def refill(self, labels: Sequence[str]) -> None:
        """The mirrors of these tables are to be filled again from the source."""

    def again(self, records: Sequence[FaultyRecord]) -> None:
        """Apply records once more that could not be applied, in their order."""

    def forget(self, records: Sequence[FaultyRecord]) -> None:
        """Give them up."""


@dataclass(slots=True)
class Work:
    """A command at work. ``withdrawn``: nobody waits for it any more. ``lasting`` is its result
    where that is there until it is withdrawn. It has a session once it asks for one: those that
    wait for builds, as many as there are views, need none."""

    command: Command
    parts: Parts
    views: ViewRegistry
    entry: ViewEntry
    help: Help
    steps: Steps = field(default_factory=Steps)
    withdrawn: threading.Event = field(default_factory=threading.Event)
    lasting: dict[str, Any] = field(default_factory=dict)
    _conn: Connection | None = field(default=None, init=False)

    @property
    def conn(self) -> Connection:
        """A session with the state database, in autocommit mode."""
        if self._conn is None:
            self._conn = self.parts.server.connect(autocommit=True)
        return self._conn

    def close(self) -> None:
        """Release the session."""
        if self._conn is not None:
            self._conn.close()

    @property
    def name(self) -> str:
        return self.command.view

    @property
    def files(self) -> GenerationFiles:
        return GenerationFiles(self.parts, self.name, self.entry.declared)
