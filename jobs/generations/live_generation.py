"""Which generation of a view is to be kept, and when it has to be given out of hand."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import structlog
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import ViewError
from jobs.generations.declaration import declared, differing, tell_kept
from jobs.generations.generation_record import (
    Generation,
    Generations,
    read_generations,
    settled,
    write_generations,
)
from jobs.generations.view_locks import is_free
from jobs.generations.view_state import (
    ViewState,
    generation_id,
    lost_error,
    open_state,
    state_directory,
    view_directory,
)
from jobs.sinks.stores import open_generations
from jobs.spark.checkpoint import committed_batch
from views.parse.definition import ViewDefinition, parse_view

_POLL_S = 0.1

log = structlog.get_logger("apply")


class Standing(NamedTuple):
    """The live generation of a view, and its stream's state."""

    number: int
    definition: ViewDefinition
    state: ViewState


def standing(
    spark: SparkSession | None, config: Config, name: str, started: bool
) -> Standing | None:
    """What is to be kept, by whoever holds the view's stream; None while there is nothing.

    ``started``: it was kept before, so what is declared since is for the next start to judge.
    Raises ``ViewError`` when the view is declared otherwise than it was built.
    """
    directory = view_directory(config.apply.state, config.source.name, name)
    found = read_generations(directory)
    if found.switching is not None:
        if not is_free(directory, "build"):
            return None
        found = settle(spark, config, name, found)
    live = found.live
    if live is None and found.of:
        return None
    view = config.views[name]
    wanted = parse_view(name, view.store, view.key, view.sql, view.history)
    if live is None:
        return Standing(1, wanted, open_state(directory, declared(wanted)))
    definition = wanted
    if changed := differing(live.declared, declared(wanted)):
        if not started and not _is_of_another(found, live, wanted):
            raise ViewError(
                f"view {name}: {changed} changed since it was last applied",
                f"run `headwater view rebuild {name}`, which builds it beside the old one",
            )
        tell_kept(name, live.number, changed)
        definition = live.declared.parsed(name)
    state = open_state(state_directory(directory, live.number), live.declared)
    return Standing(live.number, definition, state)


def refuse_lost(spark: SparkSession | None, config: Config, view: ViewDefinition) -> None:
    """For whoever prepares a store to read it, which makes what is not there: raises ``ViewError``
    if nothing is, though something was applied. The view's stream finds that out by itself."""
    directory = view_directory(config.apply.state, config.source.name, view.name)
    found = read_generations(directory)
    of_live = state_directory(directory, found.live_number)
    if (found.live is None and found.of) or (generation := generation_id(of_live)) is None:
        return
    state = ViewState(of_live, generation)
    if committed_batch(state.checkpoint) is None and state.beginning() is None:
        return
    store = open_generations(config.store(view.store), view.name, spark, config.apply.retry_s)
    with closing(store):
        if store.live() is None:
            raise lost_error(view.name, view.store)


def settle(
    spark: SparkSession | None, config: Config, name: str, found: Generations
) -> Generations:
    """End a switch that was interrupted as the store has it. The view's stream is the caller's."""
    if found.switching is None:
        return found
    target = found.of[found.switching]
    retry_s = config.apply.retry_s
    store = open_generations(config.store(target.declared.store), name, spark, retry_s)
    try:
        live = store.live()
        if live is not None and live.number == target.number:
            store.switch(target.number, target.mark)  # whatever is left to do
    finally:
        store.close()
    left = settled(found, lambda: live.number if live else None, time.time())
    write_generations(view_directory(config.apply.state, config.source.name, name), left)
    return left


def _is_of_another(found: Generations, live: Generation, wanted: ViewDefinition) -> bool:
    """Whether a generation that is built, or was gone back from, has this declaration."""
    others = (one for one in found.of.values() if one.number != live.number)
    return any(not differing(one.declared, declared(wanted)) for one in others)


class Asked:
    """Tells when whoever applies a view has to let go of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def asked(self) -> bool:
        """Whether a switch or a repair wants it, or has it."""
        return not is_free(self._directory, "asked")

    def let_pass(self, stopping: threading.Event) -> None:
        """Wait while somebody wants it, or has it."""
        while self.asked() and not stopping.wait(_POLL_S):
            pass

    def wait(self, stopping: threading.Event) -> None:
        """Until it is done, or whoever wanted it is gone, and there is something to apply."""
        while not stopping.wait(_POLL_S):
            self.let_pass(stopping)
            found = read_generations(self._directory)
            if found.switching is not None:
                if is_free(self._directory, "build"):
                    return
            elif found.live is not None or not found.of:
                return
