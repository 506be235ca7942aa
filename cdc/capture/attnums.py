"""The attnums of columns that Kafka was told once, and the names of tables.

Behind DDL, capture meets a version of a table again of which the catalog does not tell any more: at
each start it goes over what was not confirmed. The topic of schemas keeps the last description of a
version, so one that says less must not follow one that says more.

One that says otherwise is another table's shape under one ``schema_id``: a column was dropped, and
one of its name and type has its place. It is published, and told: who reads events by the
``schema_id`` alone cannot tell the two apart. A table that has another name has another topic, and
nobody who reads the first one learns that from there: it is told, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import structlog

from cdc.kafka.broker import Broker, read_compacted
from cdc.protocol.relation import Relation
from cdc.topics import schemas_topic

log = structlog.get_logger("capture")


class Attnums:
    """Of one run of capture. Kafka is asked for names at the start, while nothing waits for it, and
    for attnums when there is need."""

    def __init__(self, broker: Broker, source: str) -> None:
        self._broker, self._topic = broker, schemas_topic(source)
        self._told: dict[tuple[str, int], list[int | None]] | None = None
        self._seen: dict[tuple[str, int], list[int | None]] = {}
        self._names: dict[int, list[str]] = {}
        for record in self._records():
            name = f"{record['schema']}.{record['table']}"
            self._names.setdefault(record.get("table_oid", 0), []).append(name)

    def completed(self, relation: Relation) -> Relation:
        """With the attnums that this version of this table was described with before, where they
        are not certain now."""
        self._compare_names(relation)
        id_ = relation.schema_id(), relation.oid
        attnums = [column.attnum for column in relation.columns]
        if None not in attnums:
            # Without dropped columns among them there was never another one in their places.
            if attnums != list(range(1, len(attnums) + 1)):
                self._compare(relation, self._seen.get(id_) or self._in_kafka().get(id_), attnums)
            self._seen[id_] = attnums
            return relation
        told = self._seen.get(id_) or self._in_kafka().get(id_)
        if told is None or len(told) != len(attnums):
            return relation
        columns = zip(relation.columns, told, strict=True)
        return replace(relation, columns=tuple(one._replace(attnum=at) for one, at in columns))

    def _compare_names(self, relation: Relation) -> None:
        names = self._names.setdefault(relation.oid, [])
        if names and relation.name not in names:  # at a start it goes over older names again
            log.error(
                "a table has another name, and another topic: views of the old name get nothing",
                table=relation.name,
                was=names[-1],
                way_out=f"rename it back and run `headwater verify --repair`; or `headwater table "
                f"add {relation.name}`, write that name in the views' SQL, and rebuild them",
            )
        if relation.name not in names:
            names.append(relation.name)

    def _compare(
        self, relation: Relation, told: list[int | None] | None, attnums: list[int | None]
    ) -> None:
        if told is None or None in told or told == attnums:
            return
        log.warning(
            "other columns under the same names",
            table=relation.name,
            schema_id=relation.schema_id(),
            were=told,
            are=attnums,
            way_out="run `headwater view rebuild` for each view that reads one of them",
        )

    def _in_kafka(self) -> dict[tuple[str, int], list[int | None]]:
        if self._told is None:
            self._told = {
                (record["schema_id"], record.get("table_oid", 0)): [
                    column.get("attnum") for column in record["columns"]
                ]
                for record in self._records()
            }
        return self._told

    def _records(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, read_compacted(self._broker, self._topic).values())
