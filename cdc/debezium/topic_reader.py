"""Reads the topics that a Debezium connector fills: an ``EventReader``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Self

from cdc.config import Config
from cdc.debezium.table_shapes import describe, make_topics, read_shapes
from cdc.errors import LogError, RetryableError
from cdc.events.form import Form
from cdc.events.readers.debezium import (
    DebeziumRecords,
    OtherColumnsError,
    Snapshot,
    TableShape,
    parse_snapshot,
)
from cdc.events.readers.records import Raw
from cdc.kafka.broker import Broker
from cdc.kafka.bulk_producer import BulkProducer
from cdc.source import postgres

_TRIES = 3
"""Events of other columns than the catalog has, after each of which the mirror is filled anew."""


class DebeziumReader:
    """``know`` tells it of which snapshots the mirrors are; ``epoch`` counts what it was told."""

    def __init__(self, form: Form, learn: Callable[[], Mapping[str, Sequence[TableShape]]]) -> None:
        self._form, self._learn = form, learn
        self._shapes: Mapping[str, Sequence[TableShape]] = {}
        self._snapshots: Mapping[str, tuple[int, str]] = {}
        self._readers: dict[str, DebeziumRecords] = {}
        self._odd: dict[str, int] = {}
        self._is_certain = False
        self.epoch = 0

    def know(self, snapshots: Mapping[str, tuple[int, str]]) -> None:
        """The LSN and the snapshot that each topic's mirror was filled from."""
        if snapshots != self._snapshots:
            self._snapshots = dict(snapshots)
            self._readers = {}  # another thread may be about to keep one of the old
            self.epoch += 1

    def raw(self, topic: str, records: Iterable[Raw]) -> list[Raw]:
        found = list[Raw]()
        for key, value, offset in records:
            try:
                read = self._of(topic).record(key, value, is_certain=self._is_certain)
            except OtherColumnsError:
                read = self._looked_up(topic, key, value)
            found.append((*read, offset))
        return found

    def for_tasks(self) -> Self:
        made = type(self)(self._form, dict)
        made._shapes, made._snapshots, made._is_certain = self._learn(), self._snapshots, True
        return made

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_readers": {}, "_learn": dict}

    def _of(self, topic: str) -> DebeziumRecords:
        readers = self._readers  # before the snapshots
        if (found := readers.get(topic)) is None:
            if topic not in self._shapes and not self._is_certain:
                self._shapes = self._learn()
            if topic not in self._shapes:
                raise RetryableError(
                    f"{topic}: its table is not described yet", "wait: it is read from the source"
                )
            snapshot: Snapshot | None = None
            if topic in self._snapshots:
                snapshot = parse_snapshot(*self._snapshots[topic])
            found = DebeziumRecords(self._form, self._shapes[topic], snapshot)
            readers[topic] = found
        return found

    def _looked_up(
        self, topic: str, key: bytes | None, value: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """Of an event that came before the source was asked for its table's columns."""
        self._shapes, self._readers = self._learn(), {}
        reader = self._of(topic)
        try:
            return reader.record(key, value)
        except OtherColumnsError as error:
            self._odd[topic] = self._odd.get(topic, 0) + 1
            if self._odd[topic] > _TRIES:
                raise other_columns(topic, error, self._shapes[topic][-1]) from None
            return reader.record(key, value, is_certain=True)


def other_columns(topic: str, error: OtherColumnsError, shape: TableShape) -> LogError:
    """Of a connector that does not publish the columns that the source's publication has."""
    lacking = ", ".join(sorted(shape.columns.keys() - error.names)) or "none"
    surplus = ", ".join(sorted(error.names - shape.columns.keys())) or "none"
    return LogError(
        f"{topic}: its events have other columns than the table: they lack {lacking}, and have "
        f"{surplus} besides",
        'leave out what the connector does not publish: source.columns = { "schema.table" = '
        '{ column = "exclude" } }; transformations of events are not supported',
    )


def learned(config: Config) -> Mapping[str, Sequence[TableShape]]:
    """The tables as they are now; what is new is described."""
    kafka = config.kafka
    with (
        postgres.connect(config.source.dsn, application_name="headwater apply") as conn,
        Broker(kafka.bootstrap_servers, kafka) as broker,
        closing(BulkProducer(kafka.bootstrap_servers, security=kafka)) as producer,
    ):
        make_topics(config, broker)
        describe(config, conn, broker, producer)
        return read_shapes(broker, config.source.name)
