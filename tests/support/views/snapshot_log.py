"""A table and its log as capture and snapshots would write them, for tests of bootstraps."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, TopicPartition

from bootstrap.build_parts import Taken
from cdc.events.codes import PLACEHOLDER
from cdc.kafka.broker import Broker, TopicSpec
from cdc.topics import partition_for
from tests.support.events.events import Record, event
from tests.support.events.events import delete as deleted
from tests.support.events.written_topics import PARTITIONS, V1, Log
from views.parse.definition import ViewDefinition

Row = dict[str, Any]


class Table:
    """The table ``t`` of a source: what is written to it goes to its topic, at rising LSNs."""

    def __init__(self, log: Log) -> None:
        self.log, self.rows, self.lsn = log, dict[int, Row](), 1000
        self.snapshots = itertools.count(1)

    def write(self, *rows: Row) -> None:
        """Insert or update rows, each in a transaction of its own."""
        records: list[Record] = []
        for row in rows:
            self.lsn += 8
            op = "u" if row["id"] in self.rows else "c"
            records.append(event(self.lsn, 1, row, op, schema_id=V1.schema_id()))
            self.rows[row["id"]] = row
        self.log.write(*records)

    def touch(self, *ids: int) -> None:
        """Update rows, each in a transaction of its own, but not their ``body``: being large, it is
        left out of the event."""
        for id_ in ids:
            self.lsn += 8
            values = {**self.rows[id_], "body": PLACEHOLDER}
            changed = event(self.lsn, 1, values, "u", schema_id=V1.schema_id(), unchanged=["body"])
            self.log.write(changed)

    def delete(self, *ids: int) -> None:
        for id_ in ids:
            self.lsn += 8
            self.log.write(*deleted(self.lsn, 1, self.rows.pop(id_), V1.schema_id()))

    def forget_history(self) -> None:
        """Retention removes all that the topic holds."""
        with Broker(self.log.bootstrap) as broker:
            ends = broker.end_offsets([self.log.topic])[self.log.topic]
        admin = KafkaAdminClient(bootstrap_servers=self.log.bootstrap)
        admin.delete_records({TopicPartition(self.log.topic, p): at for p, at in ends.items()})
        admin.close()


class TableSnapshots:
    """``bootstrap.build_parts.Snapshots`` of a ``Table``. ``while_read`` runs before one ends."""

    def __init__(self, table: Table, while_read: Callable[[], None] = lambda: None) -> None:
        self.table, self.while_read = table, while_read
        self.started: list[str] = []
        self.discarded: list[str] = []
        self.cancelled: set[str] = set()
        self._rows: dict[str, tuple[int, dict[int, Row]]] = {}

    def start(self, definition: ViewDefinition) -> str:
        assert definition.table == "t"
        self.table.lsn += 8
        id_ = str(next(self.table.snapshots))
        self.started.append(id_)
        self._rows[id_] = self.table.lsn, dict(self.table.rows)
        with Broker(self.table.log.bootstrap) as broker:
            broker.create_topics(
                [TopicSpec(topic, PARTITIONS) for topic in self.topics(id_).values()]
            )
        return id_

    def goes_on(self, snapshot: str) -> bool:
        return snapshot not in self.cancelled

    def finish(self, snapshot: str) -> Taken:
        lsn, rows = self._rows[snapshot]
        (topic,) = self.topics(snapshot).values()
        for row in rows.values():
            _, value = event(lsn, 0, row, "r", schema_id=V1.schema_id())
            key = json.dumps({"id": row["id"]}, separators=(",", ":")).encode()
            self.table.log.send(topic, partition_for(key, PARTITIONS), key, value)
        self.while_read()
        return Taken((topic,), (lsn,), len(rows), True)

    def topics(self, snapshot: str) -> dict[str, str]:
        return {"public.t": f"{self.table.log.source}.__snapshot.{snapshot}.public.t"}

    def discard(self, snapshot: str) -> None:
        with Broker(self.table.log.bootstrap) as broker:
            broker.delete_topics(list(self.topics(snapshot).values()))
        self.discarded.append(snapshot)
