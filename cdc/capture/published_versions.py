"""The versions of tables that Kafka was told of: the attnums of their columns, and their names.

Behind DDL, capture meets a version of a table again of which the catalog does not tell any more: at
each start it goes over what was not confirmed. The topic of schemas keeps the last description of a
version, so one that says less must not follow one that says more. What was told of an earlier
position says most of what a later one can be (``cdc.source.attribute_numbers``).

One that says otherwise is another table's shape under one ``schema_id``: a column was dropped, and
one of its name and type has its place. It is published, and told: who reads events by the
``schema_id`` alone cannot tell the two apart. A table that has another name has another topic, and
nobody who reads the first one learns that from there: it is told, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import structlog

from cdc.kafka.broker import Broker, read_compacted
from cdc.log_events import LogEvent
from cdc.protocol.relation import Relation
from cdc.source.attribute_numbers import Before, Numbered
from cdc.topics import schemas_topic

log = structlog.get_logger("capture")


class _Told(NamedTuple):
    """What a version was described with. ``lsn``: a position at which the table was so, 0 where an
    older Headwater described it; ``columns`` are empty where attnums are not certain."""

    lsn: int
    columns: tuple[Numbered, ...]


_UNCERTAIN: Final = _Told(0, ())


class Attnums:
    """Of one run of capture. Kafka is asked at the start, while nothing waits for it, and once for
    each version that is not certain."""

    def __init__(self, broker: Broker, source: str) -> None:
        self._broker, self._topic = broker, schemas_topic(source)
        self._told: dict[int, dict[str, _Told]] = {}
        self._asked: set[tuple[int, str]] = set()
        self._names: dict[int, list[str]] = {}
        for record in self._read():
            name = f"{record['schema']}.{record['table']}"
            self._names.setdefault(record.get("table_oid", 0), []).append(name)

    def before(self, oid: int, commit_lsn: int) -> Before | None:
        """A table as it was at the last position known before this one, None if nothing is. What
        is known of a later one, by a snapshot or before a restart, says nothing."""
        told = [
            one
            for one in self._told.get(oid, {}).values()
            if one.columns and 0 < one.lsn < commit_lsn
        ]
        if not told:
            return None
        last = max(told, key=lambda one: one.lsn)
        # Another one of that transaction may have come behind it.
        until = (one.columns for one in told if one is last or one.lsn < last.lsn)
        return Before(last.columns, max(c.attnum for columns in until for c in columns))

    def completed(self, relation: Relation, commit_lsn: int) -> Relation:
        """With the attnums that this version of this table was described with before, where they
        are not certain now."""
        self._compare_names(relation)
        told, id_ = self._told.setdefault(relation.oid, {}), relation.schema_id()
        attnums = [column.attnum for column in relation.columns]
        if None in attnums:
            known = told.get(id_, _UNCERTAIN)
            if not known.columns and (relation.oid, id_) not in self._asked:
                self._asked.add((relation.oid, id_))
                self._read()  # a snapshot may have described it
                known = told.get(id_, _UNCERTAIN)
            if not known.columns:
                return relation
            attnums = [column.attnum for column in known.columns]
            columns = zip(relation.columns, attnums, strict=True)
            relation = replace(
                relation, columns=tuple(one._replace(attnum=at) for one, at in columns)
            )
        elif id_ in told:
            self._compare(relation, told[id_])
        told[id_] = _Told(commit_lsn, _numbered(relation))
        return relation

    def _compare_names(self, relation: Relation) -> None:
        names = self._names.setdefault(relation.oid, [])
        if names and relation.name not in names:  # at a start it goes over older names again
            log.error(
                LogEvent.TABLE_RENAMED,
                table=relation.name,
                was=names[-1],
                reason="it has another topic: views of the old name get no more changes",
                way_out=f"rename it back and run `headwater verify --repair`; or `headwater table "
                f"add {relation.name}`, write that name in the views' SQL, and rebuild them",
            )
        if relation.name not in names:
            names.append(relation.name)

    def _compare(self, relation: Relation, told: _Told) -> None:
        were = [column.attnum for column in told.columns]
        attnums = [column.attnum for column in relation.columns]
        if not were or were == attnums:
            return
        log.warning(
            LogEvent.COLUMNS_REPLACED,
            table=relation.name,
            schema_id=relation.schema_id(),
            were=were,
            are=attnums,
            way_out="run `headwater view rebuild` for each view that reads one of them",
        )

    def _read(self) -> list[dict[str, Any]]:
        """All records; what this run has described itself it knows better."""
        records = list(self._records())
        for record in records:
            told = self._told.setdefault(record.get("table_oid", 0), {})
            if not told.get(record["schema_id"], _UNCERTAIN).columns:
                told[record["schema_id"]] = _told(record)
        return records

    def _records(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, read_compacted(self._broker, self._topic).values())


def _numbered(relation: Relation) -> tuple[Numbered, ...]:
    return tuple(
        Numbered(
            column.attnum,
            column.name,
            column.treatment.of_type if column.treatment else column.type.oid,
        )
        for column in relation.columns
        if column.attnum is not None
    )


def _told(record: dict[str, Any]) -> _Told:
    columns = record["columns"]
    if any(column.get("attnum") is None for column in columns):
        return _UNCERTAIN
    numbered = (
        Numbered(column["attnum"], column["name"], column.get("source_oid", column["oid"]))
        for column in columns
    )
    return _Told(record.get("lsn", 0), tuple(numbered))
