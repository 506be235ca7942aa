"""What an alert says of a change: whether it is meant, and the message. Pure.

A condition is decided by the version of the table that the event was written with, so that DDL
between an event and its reading changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from cdc.config import RowAlert
from cdc.lsn import format_lsn
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.treatment import Treatment
from headwater.api.changes.event_position import Event, ForeignRecordError, event_of
from headwater.conditions.condition import Condition, ConditionError, UndecidedError
from headwater.conditions.decide import Image, images_of, meets
from headwater.conditions.fit import fitted_to_changes
from headwater.conditions.parse import parse_condition

ALL: Final = "*"
_DONE: Final = {"c": "inserted", "u": "updated", "d": "deleted"}
Versions = Callable[[str], Relation]
"""A table version by its ``schema_id``."""


class Message(NamedTuple):
    """``refused`` says why nobody can tell whether the change is meant."""

    id: str
    body: bytes
    refused: str = ""


class Rule:
    """One alert of a source. Raises ``ConditionError`` for a condition that does not parse."""

    def __init__(self, source: str, name: str, alert: RowAlert, versions: Versions) -> None:
        self._source, self._name, self._columns = source, name, alert.columns
        self._condition = parse_condition(alert.when)
        self._subject, self._is_of_view = alert.subject, bool(alert.view)
        self._versions = versions
        self._known: dict[tuple[str, str], tuple[Relation, Condition]] = {}

    def refuse_misfit(self, relation: Relation) -> None:
        """Raise ``ConditionError`` where condition or columns do not fit the table."""
        fitted_to_changes(self._condition, relation)
        known = [column.name for column in relation.columns]
        for name in self._columns:
            if name != ALL and name not in known:
                raise ConditionError(
                    f"columns: {relation.name} has no column {name}", f"known: {', '.join(known)}"
                )
        if not relation.key and not self._columns:
            raise ConditionError(
                f"columns: {relation.name} has no key, and a message would say nothing of the row",
                'name some, or ["*"]',
            )

    def message(self, place: str, key: bytes | None, value: bytes) -> Message | None:
        """Of the record at ``place``, ``topic-partition-offset``; None for one that is not meant.
        Raises what ``versions`` raises."""
        try:
            event = event_of(value)
        except ForeignRecordError as error:
            return Message(self._id(place), self._unread(place), str(error))
        source = event.source
        of = source.get("view") or f"{source.get('schema')}.{source.get('table')}"
        if event.op not in _DONE or of != self._subject:  # a topic may have several tables
            return None
        relation, condition = self._version(str(event.source.get("schema_id")), event.op)
        refused = ""
        try:
            if meets(condition, self._images(event, relation), event.op) is not True:
                return None
        except UndecidedError as error:
            refused = str(error)
        change = str(event.source["change"]) if self._is_of_view else event.position.hex()
        return Message(self._id(change), self._body(event, relation, key), refused)

    def _images(self, event: Event, relation: Relation) -> Mapping[str, Image]:
        """Rows of a view that were written before it got a column lack that, which is null."""
        if self._is_of_view:
            nulls = dict.fromkeys(column.name for column in relation.columns)
            before = None if event.before is None else {**nulls, **event.before}
            after = None if event.after is None else {**nulls, **event.after}
            event = event._replace(before=before, after=after)
        return _images(event, relation)

    def _version(self, schema_id: str, op: str) -> tuple[Relation, Condition]:
        """The table as it was, and the condition for its changes."""
        if (schema_id, op) not in self._known:
            of_others = (self._known.get((schema_id, other)) for other in _DONE)
            known = next((one for one in of_others if one is not None), None)
            relation = self._versions(schema_id) if known is None else known[0]
            fitted = fitted_to_changes(self._condition, relation, op)
            self._known[schema_id, op] = relation, fitted
        return self._known[schema_id, op]

    def _id(self, position: str) -> str:
        """The same whenever this change is sent by this alert."""
        named = json.dumps([self._source, self._name, position])
        return f"msg_{hashlib.sha256(named.encode()).hexdigest()[:32]}"

    def _body(self, event: Event, relation: Relation, key: bytes | None) -> bytes:
        chosen = self._chosen(relation)
        source = event.source
        unchanged = [name for name in event.unchanged if name in chosen]
        known = chosen if relation.replica_identity == "f" else chosen & frozenset(relation.key)
        images = {
            "before": _part(event.before, known, ()),
            "after": _part(event.after, chosen, unchanged),
        }
        at_s = int(source.get("ts_ms", 0)) / 1000
        return orjson.dumps(
            {
                "type": f"headwater.row.{_DONE[event.op]}",
                "timestamp": _iso(at_s),
                "data": {
                    "alert": self._name,
                    "source": self._source,
                    ("view" if self._is_of_view else "table"): self._subject,
                    "op": event.op,
                    "key": None if key is None else orjson.loads(key),
                    **(images if chosen else {}),
                    **({"unchanged": unchanged} if unchanged else {}),
                    "lsn": format_lsn(event.position.commit_lsn),
                    "commit_lsn": event.position.commit_lsn,
                    "ordinal": event.position.ordinal,
                },
            }
        )

    def _chosen(self, relation: Relation) -> frozenset[str]:
        if ALL in self._columns:
            return frozenset(column.name for column in relation.columns)
        return frozenset(self._columns)

    def _unread(self, place: str) -> bytes:
        data = {"alert": self._name, "source": self._source, "record": place}
        return orjson.dumps({"type": "headwater.row.unread", "data": data})


def _images(event: Event, relation: Relation) -> Mapping[str, Image]:
    before, after = Image(event.before), Image(event.after, event.unchanged)
    if event.op == "u" and event.before is None:
        if relation.replica_identity == "f" or event.after is None:
            before = Image(None, unknown="the event has no old row")
        else:  # a changed key is a delete and an insert
            before = Image({name: event.after[name] for name in relation.key})
    return images_of(before, after)


def _part(
    row: Mapping[str, Any] | None, chosen: frozenset[str], unchanged: Collection[str]
) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: row[name] for name in row if name in chosen and name not in unchanged}


def _iso(at_s: float) -> str:
    text = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def relation_of(version: Mapping[str, Any]) -> Relation:
    """A table version as ``<source>.__schemas`` describes it."""
    columns = tuple(
        Column(
            one["name"],
            TypeInfo(one["oid"], one["type_schema"], one["type"], one["kind"], one["base"]),
            one["typmod"],
            one["key"],
            one["nullable"],
            one["attnum"],
            one.get("collation", ""),
            Treatment("mask", "") if one.get("treatment") else None,
        )
        for one in version["columns"]
    )
    return Relation(
        version["table_oid"], version["schema"], version["table"], version["replica_identity"],
        columns, tuple(version["key"]),
    )  # fmt: skip
