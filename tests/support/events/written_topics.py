"""The topics of a source that is written by hand, for views over a real Kafka."""

from __future__ import annotations

import json
from typing import Any

from cdc.kafka.broker import Broker, TopicSpec
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.topics import partition_for, schemas_topic, table_topic
from tests.support.events.events import Record, event

PARTITIONS = 2
INT4, INT8, TEXT = (
    TypeInfo(oid, "pg_catalog", name, "base", name)
    for oid, name in ((23, "int4"), (20, "int8"), (25, "text"))
)
V1 = Relation(
    1, "public", "t", "d", (Column("id", INT4, -1, True), Column("body", TEXT, -1, False)), ("id",)
)
V2 = Relation(1, "public", "t", "d", (*V1.columns, Column("n", INT8, -1, False)), ("id",))
CUSTOMERS = Relation(
    1, "public", "customers", "d",
    (Column("id", INT4, -1, True), Column("name", TEXT, -1, False)), ("id",),
)  # fmt: skip
ORDERS = Relation(
    2, "public", "orders", "d",
    (
        Column("id", INT4, -1, True), Column("customer_id", INT4, -1, False),
        Column("total", INT4, -1, False), Column("note", TEXT, -1, False),
    ), ("id",),
)  # fmt: skip


class Log:
    """The topics of one table and its source, written to as capture would."""

    def __init__(self, bootstrap: str, source: str, table: str = "t") -> None:
        from confluent_kafka import Producer

        self.bootstrap, self.source = bootstrap, source
        self.topic = table_topic(source, "public", table)
        self._producer = Producer({"bootstrap.servers": bootstrap})
        with Broker(bootstrap) as broker:
            schemas = TopicSpec(schemas_topic(source), 1, config={"cleanup.policy": "compact"})
            there = broker.partitions([schemas.name])
            specs = [TopicSpec(self.topic, PARTITIONS), *([] if there else [schemas])]
            broker.create_topics(specs)

    def describe(self, relation: Relation) -> None:
        document = json.dumps(relation.describe()).encode()
        self.send(schemas_topic(self.source), 0, relation.schema_id().encode(), document)

    def write(self, *records: Record) -> None:
        """Publish events; a TRUNCATE goes to every partition."""
        for key, value in records:
            targets = range(PARTITIONS) if key is None else [partition_for(key, PARTITIONS)]
            for partition in targets:
                self._producer.produce(self.topic, key=key, value=value, partition=partition)
        assert self._producer.flush(120) == 0

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """One record, acknowledged."""
        self._producer.produce(topic, key=key, value=value, partition=partition)
        assert self._producer.flush(120) == 0


def row(id_: int, body: str | None, **more: Any) -> dict[str, Any]:
    return {"id": id_, "body": body, **more}


def v1(lsn: int, ordinal: int, values: dict[str, Any], op: str = "c") -> Record:
    return event(lsn, ordinal, values, op, schema_id=V1.schema_id())


def v2(lsn: int, ordinal: int, values: dict[str, Any], op: str = "c") -> Record:
    return event(lsn, ordinal, values, op, schema_id=V2.schema_id())
