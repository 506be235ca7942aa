"""How the tables of a view are described in the log: what it is resolved against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from cdc.errors import RetryableError, ViewError
from cdc.kafka.broker import Broker, Offsets
from cdc.topics import schemas_topic
from jobs.spark.faults import POISON, UnknownSchemaError, translate
from jobs.without_mirrors.schemas_topic import Versions, read_versions, tables_described
from views.parse.definition import ViewDefinition
from views.parse.uncaptured_tables import uncaptured
from views.table_versions import TableVersion

_T = TypeVar("_T")


class NotDescribedError(RetryableError):
    """Capture has not described a table yet: it may, so that waiting helps an ``apply``."""


def described(broker: Broker, source: str, definition: ViewDefinition) -> dict[str, Versions]:
    """All versions of each of the view's tables, by ``schema.table``.

    Raises ``NotDescribedError`` when capture has not described one of them yet.
    """
    found = {}
    for one in definition.occurrences:
        if one.table_name in found:
            continue
        versions = read_versions(broker, source, one.schema, one.table)
        if not versions:
            raise NotDescribedError(
                f"view {definition.name}: capture has not published the description of "
                f"{one.table_name} yet",
                "check that `headwater capture` is running",
            )
        found[one.table_name] = versions
    return found


class Descriptions:
    """The versions of a view's tables, as they were last read."""

    def __init__(self, broker: Broker, source: str, definition: ViewDefinition) -> None:
        self._broker, self._source, self._definition = broker, source, definition
        self._topic = schemas_topic(source)
        self._end: Offsets = {}
        self._found: Mapping[str, Versions] = {}

    def read(self) -> dict[str, Versions]:
        """By ``schema.table``. Raises ``NotDescribedError``."""
        self._end = self._broker.end_offsets([self._topic])  # first: what comes meanwhile is news
        found = described(self._broker, self._source, self._definition)
        self._found = found
        return found

    def changed(self) -> bool:
        """Whether capture has described a version otherwise since: others of its columns may be
        NULL, or be other columns. Or the table is again what it was before the newest one that was
        read: a column was added, and dropped. Events do not tell, as they do of a new version."""
        if (end := self._broker.end_offsets([self._topic])) == self._end:
            return False
        found = described(self._broker, self._source, self._definition)
        self._end = end
        return any(_is_other(versions, found[table]) for table, versions in self._found.items())


def with_versions(
    view: str, source: str, evaluate: Callable[[], _T], learn: Callable[[], bool]
) -> _T:
    """``evaluate`` a batch; once more if its events are of versions that were not read yet, which
    ``learn`` reads: then they are unknown, or hold what the older types do not."""
    try:
        return evaluate()
    except Exception as error:
        fault = translate(error, view)
        if not isinstance(fault, POISON):
            raise
        if not learn():
            if not isinstance(fault, UnknownSchemaError):
                raise
            raise UnknownSchemaError(
                f"{fault.message}, which {source}.__schemas does not hold",
                "find the other program that writes to this topic",
            ) from None
    return evaluate()


def _is_other(were: Versions, are: Versions) -> bool:
    """Whether known versions are others, or another one of them is the newest."""
    known = [id_ for id_ in are if id_ in were]
    newest = list(were)[-1]
    return known[-1:] != [newest] or any(are[id_] != were[id_] for id_ in known)


def no_topic(
    broker: Broker, source: str, definition: ViewDefinition, table: str, topic: str
) -> ViewError:
    """That one of the view's tables has no topic, with the tables that may be meant."""
    known = tables_described(broker, source) - {table}
    way = "run `headwater init`, with the table in source.tables"
    return uncaptured(definition, table, known, way, f": Kafka has no topic {topic}")


def newest(versions: Mapping[str, Versions]) -> dict[str, TableVersion]:
    """The newest version of each table."""
    return {name: list(of_table.values())[-1] for name, of_table in versions.items()}
