"""The attnums of columns that Kafka was told once.

Behind DDL, capture meets a version of a table again of which the catalog does not tell any more: at
each start it goes over what was not confirmed. The topic of schemas keeps the last description of a
version, so one that says less must not follow one that says more.
"""

from __future__ import annotations

import json
from dataclasses import replace

from cdc.kafka.broker import Broker, read_compacted
from cdc.protocol.relation import Relation
from cdc.topics import schemas_topic


class Attnums:
    """Of one run of capture; Kafka is asked when there is need."""

    def __init__(self, broker: Broker, source: str) -> None:
        self._broker, self._topic = broker, schemas_topic(source)
        self._told: dict[tuple[str, int], list[int | None]] | None = None
        self._seen: dict[tuple[str, int], list[int | None]] = {}

    def completed(self, relation: Relation) -> Relation:
        """With the attnums that this version of this table was described with before, where they
        are not certain now."""
        id_ = relation.schema_id(), relation.oid
        attnums = [column.attnum for column in relation.columns]
        if None not in attnums:
            self._seen[id_] = attnums
            return relation
        told = self._seen.get(id_) or self._in_kafka().get(id_)
        if told is None or len(told) != len(attnums):
            return relation
        columns = zip(relation.columns, told, strict=True)
        return replace(relation, columns=tuple(one._replace(attnum=at) for one, at in columns))

    def _in_kafka(self) -> dict[tuple[str, int], list[int | None]]:
        if self._told is None:
            records = map(json.loads, read_compacted(self._broker, self._topic).values())
            self._told = {
                (record["schema_id"], record.get("table_oid", 0)): [
                    column.get("attnum") for column in record["columns"]
                ]
                for record in records
            }
        return self._told
