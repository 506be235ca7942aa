"""Whole events against those that real Debezium made of the same WAL (tests/oracle/story.py).

The recorded WAL is fed to our transcriber; what comes out is compared key by key, in order, with
what stood in Debezium's topics. Values have tests of their own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import pytest

from cdc.events.change import Transcriber
from cdc.events.envelope import NEW_KEY_HEADER, OLD_KEY_HEADER, SourceContext
from cdc.lsn import parse_lsn
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.source.catalog import TableFacts
from cdc.source.relations import describe
from tests.support.events.recorded_values import type_info

RECORDED = json.loads(
    (Path(__file__).parents[3] / "oracle" / "debezium_events.json").read_text(encoding="utf-8")
)
NAME = "oracle_events"
OURS = ("commit_lsn", "ordinal", "schema_id", "unchanged")
CLOCKS = ("ts_ms", "ts_us", "ts_ns")


class Emitted(NamedTuple):
    """A record, its value parsed; JSON objects keep their order when dumped again."""

    key: str | None
    value: dict[str, Any] | None
    headers: dict[str, str]


def resolve(message: RelationMessage, _xid: int = 0, _lsn: int = 0) -> Relation:
    """What the catalog says of a table of the story."""
    key = tuple(RECORDED["keys"][message.table])
    types = {int(oid): type_info(structure) for oid, structure in RECORDED["types"].items()}
    return describe(message, TableFacts({}, key, ()), types)


def by_topic_of_ours() -> dict[str, list[Emitted]]:
    transcriber = Transcriber(
        SourceContext(RECORDED["versions"]["debezium"], NAME, NAME),
        resolve,
        lambda _relation, _key, _xid: None,
        lambda _topic: 1,
        0,
    )
    for lsn, data in RECORDED["wal"]:
        start = parse_lsn(lsn)
        transcriber.feed(pack(">cQQQ", b"w", start, start, 0) + bytes.fromhex(data))
    return {
        topic: [
            Emitted(
                record["key"].decode() if record["key"] else None,
                json.loads(record["value"]) if record["value"] else None,
                {name: (text or b"").decode() for name, text in record.get("headers", [])},
            )
            for record in records
            if isinstance(record, dict)
        ]
        for topic, records in transcriber.take().records.items()
    }


def by_topic_of_debezium() -> dict[str, list[Emitted]]:
    topics: dict[str, list[Emitted]] = defaultdict(list)
    for event in RECORDED["events"]:
        value = json.loads(event["value"]) if event["value"] else None
        headers = {k: v for k, v in event["headers"].items() if "context" not in k}
        topics[event["topic"]].append(Emitted(event["key"], value, headers))
    return topics


OUR_EVENTS = by_topic_of_ours()
THEIR_EVENTS = by_topic_of_debezium()


def comparable(value: dict[str, Any] | None) -> str | None:
    """The value as text in its own order, without the connector's clock and our additions."""
    if value is None:
        return None
    source = {k: v for k, v in value["source"].items() if k not in OURS}
    clocks = {k: 0 for k in CLOCKS if k in value}
    return json.dumps(value | {"source": source} | clocks, indent=1)


@pytest.mark.parametrize("table", ["plain", "whole", "compound"])
def test_events_are_debeziums_in_order_fields_and_keys(table: str) -> None:
    topic = f"{NAME}.public.{table}"
    ours, theirs = OUR_EVENTS[topic], THEIR_EVENTS[topic]
    assert [event.key for event in ours] == [event.key for event in theirs]
    for our, their in zip(ours, theirs, strict=True):
        assert comparable(our.value) == comparable(their.value)


@pytest.mark.parametrize("table", ["plain", "whole", "compound"])
def test_the_records_of_a_key_change_name_each_other_as_debeziums_do(table: str) -> None:
    topic = f"{NAME}.public.{table}"
    ours = [event.headers for event in OUR_EVENTS[topic]]
    theirs = [event.headers for event in THEIR_EVENTS[topic]]
    assert ours == theirs
    assert sum(NEW_KEY_HEADER in headers for headers in ours) == 2  # the tombstone's as well
    assert sum(OLD_KEY_HEADER in headers for headers in ours) == 1


def test_a_table_without_a_key_has_debeziums_events_but_no_null_tombstones() -> None:
    topic = f"{NAME}.public.keyless"
    theirs = [event for event in THEIR_EVENTS[topic] if event.value]
    assert len(theirs) == len(THEIR_EVENTS[topic]) - 1
    ours = OUR_EVENTS[topic]
    assert [(e.key, comparable(e.value)) for e in ours] == [
        (e.key, comparable(e.value)) for e in theirs
    ]


def test_a_message_inside_a_transaction_is_debeziums() -> None:
    ours, theirs = OUR_EVENTS[f"{NAME}.message"][0], THEIR_EVENTS[f"{NAME}.message"][0]
    assert (ours.key, ours.headers) == (theirs.key, theirs.headers)
    assert comparable(ours.value) == comparable(theirs.value)


def test_a_message_outside_of_any_has_the_time_it_was_seen_not_that_of_the_last_commit() -> None:
    ours, theirs = OUR_EVENTS[f"{NAME}.message"][1], THEIR_EVENTS[f"{NAME}.message"][1]
    last_commit = THEIR_EVENTS[f"{NAME}.message"][0]
    assert ours.key == theirs.key
    assert ours.value
    assert theirs.value
    assert last_commit.value
    assert theirs.value["source"]["ts_us"] == last_commit.value["source"]["ts_us"]
    for value in (ours.value, theirs.value):
        for name in CLOCKS:
            value["source"].pop(name)
    assert comparable(ours.value) == comparable(theirs.value)
