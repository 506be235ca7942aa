"""The lanes of a process: one for each store that a view of its is kept in."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial

from cdc.config import View
from jobs.run.builds.builder import Generation
from jobs.run.process_parts import Parts
from jobs.run.views.lane import Keeper, Lane, Watcher
from jobs.run.views.row_store import open_keeper
from jobs.state.server.connection import Connection, translated
from jobs.state.server.database import StateServer
from jobs.state.views.dirty_keys import NEVER


class Lanes:
    """Use from any thread. A lane is begun when it is first needed."""

    def __init__(self, parts: Parts, watcher: Watcher) -> None:
        self._parts, self._watcher = parts, watcher
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()

    def add(self, generation: Generation, view: View, sure_from: int = NEVER) -> None:
        """Keep a generation from now on, with these settings of its view; ``sure_from`` as of
        ``ViewKeeper``. Raises what ``open_keeper`` does."""
        self.attach(generation, open_keeper(self._parts, generation, view, sure_from))

    def attach(self, generation: Generation, keeper: Keeper) -> None:
        """Keep it again, by the keeper that ``detach`` gave."""
        self._lane(generation.record.store).add(generation.record.id, keeper)

    def detach(self, generation: Generation) -> Keeper | None:
        """Keep it no more, when a turn under way is over; its keeper, None if it was not kept."""
        return self._lane(generation.record.store).detach(generation.record.id)

    def hurry(self, generation: Generation) -> None:
        """Its next turn is at once, whatever the cadence of its store."""
        if (keeper := self.detach(generation)) is not None:
            self.attach(generation, keeper)

    def remove(self, generation: Generation) -> None:
        """Keep it no more, when a turn under way is over; its store is released."""
        if (keeper := self.detach(generation)) is not None:
            keeper.close()

    def wake(self, ids: Iterable[int]) -> None:
        """These generations have dirty keys."""
        views = set(ids)
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.wake(views)

    def is_idle(self, generation: Generation) -> bool:
        """Whether no key of it is dirty, as far as is known here."""
        return self._lane(generation.record.store).idle(generation.record.id)

    def end(self) -> None:
        """Stop after the turns under way."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.end()

    def _lane(self, store: str) -> Lane:
        with self._lock:
            if store not in self._lanes:
                connect = partial(_session, self._parts.server)
                cadence_s = self._parts.config.store(store).cadence_s
                self._lanes[store] = Lane(store, connect, cadence_s, self._watcher)
                self._lanes[store].start()
            return self._lanes[store]


def _session(server: StateServer) -> Connection:
    """A lane's. What it settles need not last at once: keys whose settling is lost with a server
    are written again (``ViewKeeper``). Its statements are planned for any keys, not for each
    turn's: planning takes longer than running them."""
    conn = server.connect(autocommit=True)
    with translated("opening a session of a store"):
        conn.execute(b"set synchronous_commit = off")
        conn.execute(b"set plan_cache_mode = force_generic_plan")
    return conn
