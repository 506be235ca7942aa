"""What is known of views beside Kafka's offsets: the topics they read, parked keys, who applies
them, and why one cannot go on. It is in files below ``apply.state``, or in the state database."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from cdc.config import Config, View
from cdc.errors import UsageError
from cdc.kafka.broker import Broker
from cdc.topics import view_dead_letters_topic
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from jobs.state.views.view_status import ViewStatus, view_status
from jobs.without_mirrors.dead_letters.topic import waiting
from verification.late_view_errors import is_applied, refuse_stopped
from verification.view_positions import Lacking, StoppedError
from views.parse.definition import ViewDefinition, parse_view
from views.parse.table_references import tables_read

_FRESH_S: Final = 1.0
"""So long what the state database said is taken for what it says."""


class ViewFacts(Protocol):
    """Of the views of a configuration."""

    def topics(self, view: str) -> list[str]:
        """What the view reads. Raises ``UsageError`` for one that is not declared."""

    def parked(self, view: str) -> int:
        """How many of its keys wait, for what they hold cannot be applied."""

    def applied(self, view: str) -> bool | None:
        """Whether somebody applies it now; None if its state is elsewhere."""

    def refuse_stopped(self, view: str, lacking: Lacking) -> None:
        """Raise ``StoppedError`` for a view that a fault has ended."""


def view_facts(config: Config, broker: Broker) -> ViewFacts:
    """Those of the engine that keeps each view."""
    files = FactsOfFiles(config, broker)
    if config.apply.engine == "database":
        return FactsOfEither(config, files, FactsOfState(config))
    return files


def is_kept_by_state(config: Config, name: str) -> bool:
    """Whether a view is kept over mirrors in the state database: with that engine all are, but for
    views of tables without a mirror.

    Raises ``UsageError`` for a view that is not declared.
    """
    view = declared_view(config, name)
    if config.apply.engine != "database":
        return False
    return all(config.is_mirrored(table.name) for table in tables_read(name, view.sql))


def is_applied_now(config: Config, name: str) -> bool | None:
    """Whether somebody applies a view; None if its state is elsewhere.

    Raises ``UsageError`` for a view that is not declared.
    """
    if is_kept_by_state(config, name):
        return view_status(config, name).applied
    return is_applied(view_directory(config.apply.state, config.source.name, name))


class FactsOfFiles:
    """Views with a stream of their own, or mirrors in Delta."""

    def __init__(self, config: Config, broker: Broker) -> None:
        self._config, self._broker = config, broker
        self._letters: dict[str, tuple[int, int]] = {}

    def topics(self, view: str) -> list[str]:
        source = self._config.source
        found = kept(self._config, view).occurrences
        return list(dict.fromkeys(source.own_topic(one.schema, one.table) for one in found))

    def parked(self, view: str) -> int:
        """They are read again when there are more."""
        topic = view_dead_letters_topic(view)
        if topic not in self._broker.partitions([topic]):
            return 0
        end = self._broker.end_offsets([topic])[topic][0]
        if self._letters.get(view, (-1, 0))[0] != end:
            self._letters[view] = end, waiting(self._config, self._broker, view).parked
        return self._letters[view][1]

    def applied(self, view: str) -> bool | None:
        return is_applied(self._directory(view))

    def refuse_stopped(self, view: str, lacking: Lacking) -> None:
        refuse_stopped(view, self._directory(view), lacking)

    def _directory(self, view: str) -> Path:
        return view_directory(self._config.apply.state, self._config.source.name, view)


class FactsOfState:
    """Views of the state database."""

    def __init__(
        self,
        config: Config,
        ask: Callable[[Config, str], ViewStatus] = view_status,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._ask, self._clock = config, ask, clock
        self._known: dict[str, tuple[float, ViewStatus]] = {}

    def topics(self, view: str) -> list[str]:
        declared = declared_view(self._config, view)
        record = self._status(view).record
        tables = tables_read(view, declared.sql if record is None else record.sql)
        source = self._config.source
        return [source.own_topic(table.schema, table.table) for table in tables]

    def parked(self, view: str) -> int:
        return self._status(view).parked

    def applied(self, view: str) -> bool | None:
        return self._status(view).applied

    def refuse_stopped(self, view: str, lacking: Lacking) -> None:
        if error := self._status(view).error:
            said = error if error.startswith(f"view {view}") else f"view {view}: {error}"
            hint = "correct the cause: `headwater apply` then tries again by itself"
            raise StoppedError(said, hint, lacking)
        config = self._config  # of an apply that has ended, and the state database with it
        directory = view_directory(config.apply.state, config.source.name, view)
        refuse_stopped(view, directory, lacking)

    def _status(self, view: str) -> ViewStatus:
        asked, found = self._known.get(view, (-_FRESH_S, ViewStatus()))
        if self._clock() - asked >= _FRESH_S:
            found = self._ask(self._config, view)
            self._known[view] = self._clock(), found
        return found


class FactsOfEither:
    """Each view's of the engine that keeps it."""

    def __init__(self, config: Config, files: ViewFacts, state: ViewFacts) -> None:
        self._config, self._files, self._state = config, files, state

    def topics(self, view: str) -> list[str]:
        return self._of(view).topics(view)

    def parked(self, view: str) -> int:
        return self._of(view).parked(view)

    def applied(self, view: str) -> bool | None:
        return self._of(view).applied(view)

    def refuse_stopped(self, view: str, lacking: Lacking) -> None:
        self._of(view).refuse_stopped(view, lacking)

    def _of(self, view: str) -> ViewFacts:
        return self._state if is_kept_by_state(self._config, view) else self._files


def declared_view(config: Config, name: str) -> View:
    """A view as the configuration declares it. Raises ``UsageError`` if it does not."""
    if name not in config.views:
        known = ", ".join(config.views) or "none"
        raise UsageError(f"no view {name!r}", f"choose a declared view: {known}")
    return config.views[name]


def kept(config: Config, name: str) -> ViewDefinition:
    """A view as it was built, if that is known here, else as it is declared.

    Raises ``UsageError`` for one that is not declared.
    """
    declared = declared_view(config, name)
    live = read_generations(view_directory(config.apply.state, config.source.name, name)).live
    if live is not None:
        return live.declared.parsed(name)
    return parse_view(name, declared.store, declared.key, declared.sql, declared.history)
