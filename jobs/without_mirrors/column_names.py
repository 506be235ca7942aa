"""Which names a generation of a view has for its tables' columns: those it began with.

They are remembered with it (``ViewState.namings``), and every version of a table is seen under
them, so that RENAME COLUMN changes nothing but how events are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.errors import ViewError
from cdc.kafka.broker import Broker
from jobs.delta_engine.mirrors.table_record import remembered
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import ViewState, generation_id, state_directory
from jobs.spark.checkpoint import is_started
from jobs.without_mirrors.dead_letters.letter import Letters, spelled
from jobs.without_mirrors.schemas_topic import Versions
from views.parse.definition import ViewDefinition
from views.spark.generation_names import (
    Naming,
    begun,
    exchanged,
    grown,
    is_unproven,
    keys_as_sent,
    seen,
)
from views.spark.view import resolve_view
from views.table_versions import REFUSED_HINT, TableVersion


class Names:
    """Of one generation, over the tables of its view; of whoever keeps it or looks at it."""

    def __init__(
        self,
        broker: Broker,
        topic_of: Callable[[str, str], str],
        definition: ViewDefinition,
        state: ViewState,
    ) -> None:
        self._broker, self._topic_of = broker, topic_of
        self._definition, self._state = definition, state
        self._namings: dict[str, Naming] = {}
        self._respelled: dict[str, set[tuple[str, ...]]] = {}

    def anew(self, found: Mapping[str, Versions]) -> dict[str, Versions]:
        """As ``under``, of a generation that begins now: with the newest versions."""
        newest = {table: list(versions.values())[-1] for table, versions in found.items()}
        self._state.remember_namings({table: begun(one) for table, one in newest.items()})
        return self.under(found)

    def under(self, found: Mapping[str, Versions]) -> dict[str, Versions]:
        """Versions of the tables, by ``schema.table``, under the generation's names.

        Raises ``ViewError`` where a version's names are other columns' than when it was first read.
        """
        self._namings = namings_of(self._state, self._definition, found)
        for table, versions in found.items():
            if names := exchanged(self._namings[table], versions.values()):
                raise ViewError(
                    f"view {self._definition.name}: a column of {table} was dropped and another "
                    "has its name and position: events do not show which one "
                    f"{', '.join(names)} is",
                    REFUSED_HINT,
                )
        named = {table: self._seen(self._namings[table], found[table]) for table in found}
        keys = {table: keys_as_sent(versions.values()) for table, versions in found.items()}
        self._respelled = {
            self._topic(next(iter(found[table].values()))): sent
            for table, sent in keys.items()
            if len(sent) > 1
        }
        return named

    def _seen(self, naming: Naming, versions: Versions) -> Versions:
        found = {id_: seen(version, naming) for id_, version in versions.items()}
        for id_, version in versions.items():
            if is_unproven(version, naming):
                found[id_] = replace(version, refused=self._unproven(version))
        renamed = [id_ for id_, one in found.items() if one.key != versions[id_].key]
        if renamed and not self._in_order(versions[renamed[0]]):
            for id_ in renamed:
                if all(found[id_].column(part) for part in found[id_].key):
                    found[id_] = replace(versions[id_], refused=self._moved(versions[id_]))
        return found

    def _unproven(self, version: TableVersion) -> str:
        return (
            f"view {self._definition.name}: which columns these of {version.name} are is not"
            f" certain ({version.describe()}): it was altered again before capture could ask"
        )

    def _moved(self, version: TableVersion) -> str:
        return (
            f"view {self._definition.name}: key columns of {version.name} were renamed"
            f" ({', '.join(version.key)} now), and its topic has several partitions: under a new"
            " key a row's events may be in another one"
        )

    def _in_order(self, table: TableVersion) -> bool:
        """Whether events of a row stay in order when its key is called otherwise: with a key's text
        its partition changes, and partitions are read each at its own pace."""
        topic = self._topic(table)
        return self._broker.partitions([topic]).get(topic) == 1

    def _topic(self, table: TableVersion) -> str:
        return self._topic_of(table.schema, table.table)

    def remember(self) -> None:
        """Keep the names that ``under`` used: the SQL fits them."""
        self._state.remember_namings(self._namings)

    def began_with(self, table: str, versions: Versions) -> TableVersion | None:
        """The version of a table that the generation began with, of those that ``under`` gave."""
        return versions.get(self._namings[table].schema_id)

    def refuse_parked(self, letters: Letters, records: DataFrame) -> None:
        """Raise ``ViewError`` where a key waits under names that events among ``records``, which
        flow, do not have: whether these are its later ones is not known."""
        for topic, sent in self._respelled.items():
            parked = {spelled(owner.key) for owner in letters.keys if owner.topic == topic}
            parked &= sent  # others are no events' keys
            if not parked:
                continue
            names = F.json_object_keys(F.col("key").cast("string")).alias("names")
            rows = records.where(F.col("topic") == topic).select(names).distinct().collect()
            flowing = {tuple(row.names) for row in rows if row.names is not None} & sent
            if flowing and (len(parked) > 1 or flowing != parked):
                name = self._definition.name
                raise ViewError(
                    f"view {name}: a key column of {topic} was renamed while keys are parked: "
                    "later events could not be matched to them",
                    f"run `headwater dead-letters retry {name}`, or `discard` instead of `retry`",
                )


def live_state(directory: Path) -> ViewState:
    """Of the generation that people read, of the view whose state is in ``directory``: to be looked
    at."""
    of_live = state_directory(directory, read_generations(directory).live_number)
    return ViewState(of_live, generation_id(of_live) or "")


def namings_of(
    state: ViewState, definition: ViewDefinition, versions: Mapping[str, Versions]
) -> dict[str, Naming]:
    """What a generation calls columns, with those that came since it was last asked."""
    held = state.namings()
    if any(table not in held for table in versions):
        bases = _bases(state, definition, versions)
        held = {table: begun(base) for table, base in bases.items()} | held
    return {
        table: grown(held[table], list(of_table.values())) for table, of_table in versions.items()
    }


def _bases(
    state: ViewState, definition: ViewDefinition, versions: Mapping[str, Versions]
) -> dict[str, TableVersion]:
    """What the SQL is resolved against where a generation begins: the newest versions.

    A generation of an older Headwater's has begun. What its mirrors were last opened with is
    known; a view without mirrors takes the newest version that its SQL can be run over.
    """
    newest = {table: list(of_table.values())[-1] for table, of_table in versions.items()}
    if not is_started(state.checkpoint) and state.beginning() is None:
        return newest
    if definition.maintained:
        return newest | remembered(state.mirrors, versions)
    for base in _fitting(definition, versions[definition.table_name]):
        return {base.name: base}
    return newest


def _fitting(definition: ViewDefinition, versions: Versions) -> Iterator[TableVersion]:
    """The versions that a view of one table can be run over, the newest first."""
    for version in reversed(versions.values()):
        with suppress(ViewError):
            resolve_view(definition, {version.name: version})
            yield version
