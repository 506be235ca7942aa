"""What building a view needs, put together by the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.kafka.broker import Broker
from jobs.generations.declaration import declared, differing, layout_of
from jobs.generations.generation_record import (
    Generation,
    Generations,
    read_generations,
    write_generations,
)
from jobs.generations.view_state import view_directory
from jobs.sinks.contract import Generations as StoredGenerations
from jobs.sinks.stores import open_generations
from views.parse.definition import ViewDefinition, parse_view
from views.table_versions import TableVersion

Tables = Mapping[str, TableVersion]
"""By ``schema.table``."""


class Taken(NamedTuple):
    """A snapshot that is whole in Kafka.

    ``points`` are the LSNs it was read at, of each row one. ``clean``: one point, and no row stands
    twice. ``dead_letters`` rows are not in it: they were too large for Kafka.
    """

    topics: tuple[str, ...]
    points: tuple[int, ...]
    rows: int
    clean: bool
    dead_letters: int = 0


class Snapshots(Protocol):
    """Snapshots of a view's tables, each into topics of its own."""

    def start(self, definition: ViewDefinition) -> str:
        """Begin one of the view's tables; its id."""

    def goes_on(self, snapshot: str) -> bool:
        """Whether it can be finished: somebody may have cancelled it."""

    def finish(self, snapshot: str) -> Taken:
        """Read it to its end, from wherever it is."""

    def topics(self, snapshot: str) -> dict[str, str]:
        """Where its rows are, by ``schema.table``."""

    def discard(self, snapshot: str) -> None:
        """Remove its topics and what is remembered of it; nothing if that was done."""


@dataclass(frozen=True, slots=True)
class Kit:
    """For one view. ``step`` hears what is being done, ``now_s`` is the clock (since 1970).

    ``stopping`` ends a build between two steps; the next one goes on from there. ``spark`` None
    is enough to switch, keep and drop in other stores than Delta. ``present`` says what the source
    has made of tables by now. ``new_history``: a generation may take the place of one that keeps
    what rows were. ``sharing``: so many views share the session, and its memory.
    """

    config: Config
    name: str
    spark: SparkSession | None
    broker: Broker
    snapshots: Snapshots
    stopping: threading.Event
    step: Callable[[str], None]
    now_s: Callable[[], float]
    present: Callable[[Tables], Tables]
    new_history: bool = False
    sharing: int = 1

    @property
    def directory(self) -> Path:
        return view_directory(self.config.apply.state, self.config.source.name, self.name)

    @property
    def session(self) -> SparkSession:
        """Spark, for what cannot be done without."""
        assert self.spark is not None, "a build has a session"
        return self.spark

    @property
    def definition(self) -> ViewDefinition:
        """As it is declared now."""
        view = self.config.views[self.name]
        return parse_view(self.name, view.store, view.key, view.sql, view.history)

    @property
    def layout(self) -> str:
        """How rows are to lie in the store, as it is declared now."""
        return layout_of(self.config.views[self.name])

    def topics(self, definition: ViewDefinition) -> dict[str, str]:
        """The main topics of the view's tables, by ``schema.table``."""
        return {
            one.table_name: self.config.source.own_topic(one.schema, one.table)
            for one in definition.occurrences
        }

    def stored(self, one: Generation) -> StoredGenerations:
        """The view's generations in the store that ``one`` is in."""
        store = self.config.store(one.declared.store)
        declared = self.config.views.get(self.name)
        retry_s, history = self.config.apply.retry_s, one.declared.history
        return open_generations(store, self.name, self.spark, retry_s, declared, history)

    def read(self) -> Generations:
        return read_generations(self.directory)

    def write(self, generations: Generations) -> Generations:
        write_generations(self.directory, generations)
        return generations

    def is_declared(self, one: Generation) -> bool:
        """Whether a generation is what the configuration declares."""
        same = not differing(one.declared, declared(self.definition))
        return same and one.layout == self.layout
