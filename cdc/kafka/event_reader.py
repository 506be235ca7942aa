"""Events of a source's topics, read in whichever form ``[events]`` has them written.

What reads events knows the default form alone (``docs/events.md``): records are brought into it
where they come from Kafka. Of topics in the default form there is no reader, and they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import orjson

from cdc.config import Config
from cdc.debezium.table_shapes import column_kind
from cdc.debezium.topic_reader import DebeziumReader, learned
from cdc.errors import LogError, RetryableError
from cdc.events.form import Form
from cdc.events.readers.records import (
    Columns,
    EventReader,
    Raw,
    RecordReader,
    UnknownVersionError,
)
from cdc.kafka.broker import Broker, read_compacted
from cdc.kafka.partition_reader import FetchedRecord
from cdc.registry.schemas import SchemaRegistry, payloads_of, registry_of
from cdc.topics import schemas_topic


class FormReader:
    """Of topics that capture fills in another form. ``learn`` gives the columns of each table
    version that is described, by ``schema_id``; ``registry`` has the schemas of records that do not
    carry them."""

    def __init__(
        self,
        form: Form,
        learn: Callable[[], Mapping[str, Columns]],
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._form, self._learn, self._registry = form, learn, registry
        self._known: Mapping[str, Columns] = {}
        self._reader = RecordReader(form, self._columns, payloads_of(registry))
        self.epoch = 0

    def raw(self, topic: str, records: Iterable[Raw]) -> list[Raw]:
        found = list[Raw]()
        for key, value, offset in records:
            try:
                read = self._reader.record(key, value)
            except UnknownVersionError:
                self._known = {**self._known, **self._learn()}
                try:
                    read = self._reader.record(key, value)
                except UnknownVersionError as error:
                    raise RetryableError(
                        f"{topic}: the event at offset {offset} arrived before the description of "
                        f"its table version, {error.schema_id}",
                        "wait: capture wrote it first, so it is about to arrive",
                    ) from None
            found.append((*read, offset))
        return found

    def know(self, snapshots: Mapping[str, tuple[int, str]]) -> None:
        """Events have positions of their own."""

    def for_tasks(self) -> Self:
        known = self._learn()
        return type(self)(self._form, lambda: known, self._registry)

    def _columns(self, schema_id: str) -> Columns | None:
        return self._known.get(schema_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_known, (self._form, self._learn(), self._registry)


def _of_known(
    form: Form, known: Mapping[str, Columns], registry: SchemaRegistry | None
) -> FormReader:
    return FormReader(form, lambda: known, registry)


def described(config: Config) -> dict[str, Columns]:
    """The columns of each table version that capture has described by now."""
    kafka = config.kafka
    with Broker(kafka.bootstrap_servers, kafka) as broker:
        return read_columns(broker, config.source.name)


def read_columns(broker: Broker, source: str) -> dict[str, Columns]:
    """The columns of each table version that capture has described, by ``schema_id``.

    Raises ``LogError`` for a record that is not one of capture's.
    """
    topic, found = schemas_topic(source), dict[str, Columns]()
    for key, value in read_compacted(broker, topic).items():
        try:
            version = orjson.loads(value)
            found[version["schema_id"]] = {
                one["name"]: column_kind(one) for one in version["columns"]
            }
        except (ValueError, KeyError, TypeError):
            raise LogError(f"{topic}: the record of {key!r} describes no table version") from None
    return found


def event_reader(config: Config) -> EventReader | None:
    """What reads the topics of the source, None where they are in the default form."""
    if config.source.of_debezium:
        return DebeziumReader(config.form, partial(learned, config))
    form = form_of(config)
    if form is None:
        return None
    return FormReader(form, partial(described, config), registry_of(config))


def form_of(config: Config) -> Form | None:
    """The form in which the source's events are written, None for the default one."""
    form = config.form
    return form if form.recorded else None


def fetched(
    reader: EventReader | None, records: Sequence[FetchedRecord]
) -> Sequence[FetchedRecord]:
    """Records of any topics in the default form."""
    if reader is None:
        return records
    found = list[FetchedRecord]()
    for one in records:
        ((key, value, _),) = reader.raw(one.topic, [(one.key, one.value, one.offset)])
        found.append(one._replace(key=key, value=value))
    return found


def stretches(
    reader: EventReader | None, topic: str, found: Iterable[Iterable[Raw]]
) -> Iterable[Iterable[Raw]]:
    """Records of a topic, some at a time, in the default form."""
    return found if reader is None else (reader.raw(topic, some) for some in found)


def event_broker(config: Config) -> Broker:
    """A client whose ``events`` are in the default form."""
    kafka = config.kafka
    return Broker(kafka.bootstrap_servers, kafka, event_reader(config))
