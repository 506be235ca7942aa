"""The changes of a table, as an alert reads them: its topic, as a member of a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Collection

import orjson
import structlog

from cdc.config import Config, RowAlert
from cdc.errors import HeadwaterError, RetryableError, UsageError
from cdc.kafka.broker import Broker
from cdc.kafka.broker.logs import read_compacted
from cdc.kafka.group_reader import GroupReader
from cdc.log_events import LogEvent
from cdc.protocol.relation import Relation
from cdc.routes.faults import content_fault
from cdc.topics import row_alert_group, schemas_topic
from headwater.alerts.rule import relation_of
from headwater.api.tables import CapturedTable

Find = Callable[[str], CapturedTable | None]
"""A captured table by its name."""
Fits = Callable[[Relation], None]
"""Raises ``UsageError`` where an alert does not fit."""

log = structlog.get_logger("serve")


class TableSource:
    """Of one alert."""

    def __init__(self, config: Config, name: str, alert: RowAlert, find: Find) -> None:
        self._config, self._name, self._alert, self._find = config, name, alert, find

    def _table(self, fits: Fits) -> CapturedTable:
        found = self._find(self._alert.table)
        if found is None:
            raise UsageError(
                f"alerts.rows.{self._name}.table: {self._alert.table} is not captured",
                "name one of `GET /tables`, as schema.table",
            )
        place = self._config.source.place(found.relation.schema, found.relation.table)
        if fault := content_fault(found.label, place):
            raise UsageError(f"alerts.rows.{self._name}.table: {fault[0]}", fault[1])
        fits(found.relation)
        return found

    def relation(self, fits: Fits) -> Relation:
        """As ``begin`` has it."""
        return self._table(fits).relation

    def begin(self, fits: Fits) -> str:
        """The topic. Raises ``UsageError`` where there is no such table, or the alert does not fit
        it, ``RetryableError`` where it is not there yet."""
        topic = self._table(fits).topic
        with Broker(self._config.kafka.bootstrap_servers, self._config.kafka) as broker:
            if begin_at_end(broker, self._group, topic):
                log.info(LogEvent.ROW_ALERT_BEGINS, alert=self._name, topic=topic)
        return topic

    def reader(self, topic: str, revoked: Callable[[Collection[int], bool], None]) -> GroupReader:
        """Of that topic; ``begin`` comes before."""
        kafka = self._config.kafka
        return GroupReader(kafka.bootstrap_servers, self._group, topic, revoked, kafka)

    def version(self, schema_id: str) -> Relation:
        """A table version that capture has described. Raises ``RetryableError`` where it has
        not."""
        kafka, topic = self._config.kafka, schemas_topic(self._config.source.name)
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            for value in read_compacted(broker, topic).values():
                version = orjson.loads(value)
                if version["schema_id"] == schema_id:
                    return relation_of(version)
        raise RetryableError(
            f"{topic} does not describe table version {schema_id} yet",
            "wait: capture writes it first",
        )

    @property
    def _group(self) -> str:
        return row_alert_group(self._config.source.name, self._name)


def begin_at_end(broker: Broker, group: str, topic: str) -> bool:
    """Have a group that was never seen begin where the topic ends now, and say whether it was.
    Raises ``RetryableError`` where there is no topic yet."""
    if topic not in broker.partitions([topic]):
        raise RetryableError(
            f"Kafka has no topic {topic} yet",
            "run `headwater init`, or for a new table `headwater table add`",
        )
    if broker.committed(group, [topic]).get(topic):
        return False
    ends = broker.end_offsets([topic])
    try:
        broker.commit_group(group, {topic: ends[topic]})
    except HeadwaterError:
        if broker.committed(group, [topic]).get(topic):
            return False  # another server was faster, and is a member by now
        raise
    return True
