"""The generations of one view as other commands see them, while a process keeps and builds it.

A switch is noted before the store is told and after, so whoever finds it half done asks the store
(``jobs.generations.generation_record``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from cdc.config import Config, View
from cdc.errors import ViewError
from jobs.generations.declaration import Declaration, layout_of
from jobs.generations.generation_record import (
    Generation,
    Generations,
    read_generations,
    write_generations,
)
from jobs.generations.last_error import NOTE
from jobs.generations.live_generation import settle
from jobs.generations.view_state import lost_error
from jobs.run.process_parts import Parts
from jobs.sinks.contract import Generations as StoredGenerations
from jobs.sinks.contract import Live
from jobs.sinks.stores import open_generations
from jobs.state.views.view_record import ViewRecord

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class GenerationFiles:
    """Of one view; stores are filled as ``view`` declares it. ``clock`` is in seconds since
    1970."""

    parts: Parts
    name: str
    view: View
    clock: Callable[[], float] = time.time

    @property
    def config(self) -> Config:
        return self.parts.config

    def read(self) -> Generations:
        """As they are; a switch that a killed process left half done is ended first."""
        found = read_generations(self.parts.directory(self.name))
        if found.switching is None:
            return found
        return settle(self.parts.spark, self.config, self.name, found)

    def begin(self, view: View, tables: tuple[str, ...], new_history: bool = False) -> int:
        """Plan a generation that is to be built; its number, above all that are known here and the
        one that the store shows. Raises ``ViewError`` where a history would end, unless a
        ``new_history`` is to begin."""
        found = self.read()
        if (left := found.building) is not None:
            found = self.drop(left.number)
        wanted = declaration(view, tables)
        with closing(self.stored(view.store)) as stored:
            live = stored.live()
        if not new_history:
            self._refuse_to_forget(found, live)
        above = live.number if live else 0
        planned = found.planned(wanted, {}, self.clock(), above, layout=layout_of(view))
        begun = self._write(planned).building
        assert begun is not None, "it was just planned"
        return begun.number

    def loaded(self, number: int, rows: int) -> None:
        """The store holds its load."""
        self._write(self.read().moved(number, "loaded", rows=rows))

    def switch(self, number: int) -> Generations:
        """Let readers see a generation from now on, new or retired."""
        found = self.read()
        target, live, mark = found.of[number], found.live, ""
        if live is not None:
            with closing(self.stored(live.declared.store)) as stored:
                shown = stored.live()
            mark = shown.mark if shown else ""
        found = self._write(found.intending(number, mark))
        with closing(self.stored(target.declared.store)) as stored:
            stored.switch(number, target.mark)
        return self._write(found.switched(self.clock()))

    def refuse_lost(self, record: ViewRecord) -> None:
        """Raise ``ViewError`` where readers of the store do not see this generation, which is live:
        it was emptied, or is another one. Nothing is made there."""
        with closing(self.stored(record.store)) as stored:
            shown = stored.live()
        if shown is None or shown.number != record.generation:
            raise lost_error(self.name, record.store)

    def drop(self, number: int) -> Generations:
        """Remove a generation from its store, and from what is known."""
        found = self._write(self.read().moved(number, "dropping"))
        with closing(self.stored(found.of[number].declared.store)) as stored:
            stored.drop(number)
        return self._write(self.read().without(number))

    def clear(self) -> None:
        """Forget the view: all of its generations are gone."""
        for file in ("generations.json", NOTE):
            (self.parts.directory(self.name) / file).unlink(missing_ok=True)

    def expired(self) -> list[Generation]:
        """Those that are kept no longer."""
        apply = self.config.apply
        return self.read().expired(apply.keep_generations, apply.keep_days * _DAY_S, self.clock())

    def _refuse_to_forget(self, found: Generations, shown: Live | None) -> None:
        """What the store shows may not be known here: the state was lost, or is another host's."""
        live = found.live
        kept = shown.number if shown is not None and shown.history else 0
        if live is not None and live.declared.history:
            kept = live.number
        if kept:
            raise ViewError(
                f"view {self.name} has history since generation {kept}, which the source does "
                "not hold: a new generation starts with the current rows",
                f"copy the history you need, then run `headwater view rebuild {self.name} "
                "--new-history`",
            )

    def stored(self, store: str, history: str = "") -> StoredGenerations:
        """The view's generations in a store; those that it fills keep such a ``history``."""
        retry_s = self.config.apply.retry_s
        return open_generations(
            self.config.store(store), self.name, self.parts.spark, retry_s, self.view, history
        )

    def _write(self, generations: Generations) -> Generations:
        write_generations(self.parts.directory(self.name), generations)
        return generations


def declaration(view: View, tables: tuple[str, ...]) -> Declaration:
    """A view as it is remembered."""
    return Declaration(view.sql, tuple(view.key), view.store, tables[0], view.history)


def is_built_from(record: ViewRecord, view: View) -> bool:
    """Whether a generation has this declaration."""
    declared = view.sql, tuple(view.key), view.store, view.history
    return (record.sql, record.key, record.store, record.history) == declared
