"""Progress marks: what ``<source>.__progress`` says of a source. Pure.

A mark is a promise: every transaction with commit LSN <= ``lsn`` stands below ``offsets``, the next
offset of each partition, and no other below ``floors``. ``confirmed`` is the end LSN that may be
confirmed to PostgreSQL once the mark is acknowledged, ``lsn + 1``. It also names the history in
which its LSNs mean something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from cdc.errors import LogError


class Mark(NamedTuple):
    """One record of the progress topic."""

    confirmed: int
    offsets: dict[str, dict[int, int]]
    system_id: str
    timeline: int
    database: str
    slot: str
    heartbeat_ms: int | None = None
    """When the newest heartbeat that is durable was written; None before the first."""
    floors: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """Below them no record is of a transaction above ``lsn``; of a partition that is not named its
    ``offsets`` say so."""
    topic_ids: Mapping[str, str] = MappingProxyType({})
    """Kafka's, of topics that have one: offsets are of that topic and no other of its name."""
    regrouped: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """Where the partitions of a topic ended when it last got more of them: the next change of a
    record below may be in another partition."""
    form: Mapping[str, Any] = MappingProxyType({})
    """What the form of the topics' events was begun with, as ``cdc.events.form`` records it; empty
    for ours."""
    routed: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Where the published tables are that a route puts elsewhere than their names say, by
    ``schema.table``: ``Place.recorded``."""

    @property
    def lsn(self) -> int:
        """Every transaction that committed at or below it is covered."""
        return self.confirmed - 1

    @property
    def searched_from(self) -> dict[str, dict[int, int]]:
        """The offset of each partition behind which records above ``lsn`` may stand."""
        return {
            topic: {**of_topic, **self.floors.get(topic, {})}
            for topic, of_topic in self.offsets.items()
        }

    def encode(self, now_ms: int) -> bytes:
        """The record's value."""
        document = {
            "lsn": self.lsn,
            "confirmed": self.confirmed,
            "offsets": _by_name(self.offsets),
            "floors": _by_name(self._lower()),
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "regrouped": _by_name(self.regrouped),
            "system_id": self.system_id,
            "timeline": self.timeline,
            "database": self.database,
            "slot": self.slot,
            "heartbeat_ms": self.heartbeat_ms,
            "ts_ms": now_ms,
        }
        if self.form:
            document["form"] = dict(self.form)
        if self.routed:
            document["routed"] = {label: dict(of) for label, of in sorted(self.routed.items())}
        return json.dumps(document, separators=(",", ":")).encode()

    def _lower(self) -> dict[str, dict[int, int]]:
        """The floors that ``offsets`` do not say."""
        lower = {
            topic: {p: at for p, at in floors.items() if at != self.offsets[topic][p]}
            for topic, floors in self.floors.items()
        }
        return {topic: floors for topic, floors in lower.items() if floors}


def _by_name(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {
        topic: {str(partition): offset for partition, offset in sorted(ends.items())}
        for topic, ends in sorted(offsets.items())
    }


def _by_number(document: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {
        topic: {int(partition): int(offset) for partition, offset in ends.items()}
        for topic, ends in document.items()
    }


def decode_mark(value: bytes, topic: str) -> Mark:
    """The mark in a record's value; raises ``LogError`` for anything else."""
    try:
        document: dict[str, Any] = json.loads(value)
        offsets = _by_number(document["offsets"])
        # Marks of earlier versions have none of the six.
        beat, floors = document.get("heartbeat_ms"), document.get("floors")
        if floors is None:
            floors = {topic: dict.fromkeys(ends, 0) for topic, ends in document["offsets"].items()}
        return Mark(
            int(document["confirmed"]),
            offsets,
            str(document["system_id"]),
            int(document["timeline"]),
            str(document["database"]),
            str(document["slot"]),
            None if beat is None else int(beat),
            _by_number(floors),
            {str(name): str(id_) for name, id_ in document.get("topic_ids", {}).items()},
            _by_number(document.get("regrouped", {})),
            dict(document.get("form", {})),
            {str(label): dict(of) for label, of in document.get("routed", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogError(
            f"topic {topic} holds a record that is not a progress record: {error!r}",
            "give this source a unique source.name: another program writes to the topic",
        ) from None
