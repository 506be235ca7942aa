"""Whole records in the form of the preset against those that real Debezium made of the same WAL.

Keys, values and their schemas, of tables, messages and transactions; truncates are recorded, too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from cdc.columnar.feed import ColumnarFeed
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.transactions import Ledger
from cdc.lsn import parse_lsn
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.protocol.wire import Arrived
from cdc.source import relations
from cdc.source.catalog import TableFacts
from tests.support.events import transcribed
from tests.support.events.recorded_values import type_info
from tests.support.events.transcribed import (
    NOW_US,
    TOPIC,
    begin,
    commit,
    describe,
    frame,
    insert,
    parsed,
    row,
    transcribe,
    transcriber,
    update,
)

RECORDED = json.loads(
    (Path(__file__).parents[3] / "oracle" / "debezium_form_events.json").read_text(encoding="utf-8")
)
NAME = "oracle_story"
TABLES = ("plain", "whole", "keyless", "compound")
OF_OURS = ("commit_lsn", "ordinal", "schema_id", "unchanged")
CLOCKS = ("ts_ms", "ts_us", "ts_ns")


def resolve(message: RelationMessage, _xid: int = 0, _lsn: int = 0) -> Relation:
    key = tuple(RECORDED["keys"][message.table])
    types = {int(oid): type_info(structure) for oid, structure in RECORDED["types"].items()}
    nullable = dict.fromkeys(key, False)
    facts = TableFacts(nullable, key, ())
    return relations.describe(message, facts, types)


def emitted(form: Form) -> dict[str, list[Any]]:
    made = Transcriber(
        SourceContext(RECORDED["versions"]["debezium"], NAME, NAME, form),
        resolve, lambda _r, _k, _x: None, lambda _topic: 1, 0, ledger=Ledger(NAME, form),
    )  # fmt: skip
    for lsn, data in RECORDED["wal"]:
        start = parse_lsn(lsn)
        made.feed(pack(">cQQQ", b"w", start, start, 0) + bytes.fromhex(data))
    return {
        topic: [one for one in records if isinstance(one, dict)]
        for topic, records in made.take().records.items()
        if not topic.endswith("__schemas")
    }


def ours(form: Form) -> dict[str, list[Any]]:
    return {
        topic: [(_parsed(one["key"]), _parsed(one["value"])) for one in records]
        for topic, records in emitted(form).items()
    }


def _parsed(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def theirs() -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for event in RECORDED["events"]:
        parts = []
        for part in (event["key"], event["value"]):
            whole = part and {
                "schema": RECORDED["schemas"][part[0]],
                "payload": json.loads(part[1]),
            }
            parts.append(whole)
        topics.setdefault(event["topic"], []).append(tuple(parts))
    return topics


PRESET, DEBEZIUMS = ours(replace(DEBEZIUM, skipped=frozenset())), theirs()


def payloads(value: Any) -> str | None:
    """Without the connector's clock, our additions, and the ids that differ on purpose."""
    if value is None:
        return None
    payload = dict(value["payload"])
    payload["source"] = {k: v for k, v in payload["source"].items() if k not in OF_OURS}
    payload |= {name: 0 for name in CLOCKS if name in payload}
    if payload["transaction"]:
        payload["transaction"] = {**payload["transaction"], "id": 0}
    return json.dumps(payload)


def schema(value: Any) -> str | None:
    """As text, in its order; without our fields of ``source``."""
    if value is None:
        return None
    found = dict(value["schema"])
    fields = [dict(field) for field in found["fields"]]
    for field in fields:
        if field["field"] == "source":
            field["fields"] = [one for one in field["fields"] if one["field"] not in OF_OURS]
        if field["field"] == "message":
            field["fields"] = [one for one in field["fields"] if one["field"] != "omitted"]
    return json.dumps({**found, "fields": fields})


@pytest.mark.parametrize("table", TABLES)
def test_events_with_their_schemas_are_debeziums(table: str) -> None:
    topic = f"{NAME}.public.{table}"
    # Debezium follows a delete without a key by a tombstone without one.
    expected = [(key, value) for key, value in DEBEZIUMS[topic] if key or value]
    assert [key and json.dumps(key) for key, _ in PRESET[topic]] == [
        key and json.dumps(key) for key, _ in expected
    ]
    for (_, our), (_, their) in zip(PRESET[topic], expected, strict=True):
        assert payloads(our) == payloads(their)
        assert schema(our) == schema(their)


@pytest.mark.parametrize("table", ["plain", "whole", "compound"])
def test_keys_in_headers_have_no_schema_as_debeziums(table: str) -> None:
    topic, names = f"{NAME}.public.{table}", ("__debezium.newkey", "__debezium.oldkey")
    found = [
        {name: value.decode() for name, value in one.get("headers") or ()}
        for one in emitted(replace(DEBEZIUM, skipped=frozenset()))[topic]
    ]
    assert found == [
        {name: value for name, value in event["headers"].items() if name in names}
        for event in RECORDED["events"]
        if event["topic"] == topic
    ]
    assert sum(map(bool, found)) >= 3


def test_messages_are_debeziums() -> None:
    topic = f"{NAME}.message"
    assert [json.dumps(key) for key, _ in PRESET[topic]] == [
        json.dumps(key) for key, _ in DEBEZIUMS[topic]
    ]
    (_, our), (_, their) = PRESET[topic][0], DEBEZIUMS[topic][0]
    assert schema(our) == schema(their)
    assert our["payload"]["message"].pop("omitted") is None
    assert payloads(our) == payloads(their)


def test_records_of_transactions_are_debeziums() -> None:
    topic = f"{NAME}.transaction"
    assert len(PRESET[topic]) == len(DEBEZIUMS[topic])
    for our, their in zip(PRESET[topic], DEBEZIUMS[topic], strict=True):
        for ours_, theirs_ in zip(our, their, strict=True):
            assert json.dumps(ours_["schema"]) == json.dumps(theirs_["schema"])
        for name in ("status", "event_count", "ts_ms"):
            assert our[1]["payload"][name] == their[1]["payload"][name]


def test_the_preset_has_no_truncates_and_the_positions_of_all_others_stay() -> None:
    def positions(topics: dict[str, list[Any]]) -> list[tuple[int, int, str]]:
        return sorted(
            (source["commit_lsn"], source["ordinal"], event["op"])
            for topic, records in topics.items()
            for _, value in records
            if value and not topic.endswith("transaction")
            for event in [value.get("payload", value)]
            for source in [event["source"]]
        )

    of_all, without = positions(ours(OURS)), positions(ours(DEBEZIUM))
    assert [one for one in of_all if one[2] != "t"] == without
    assert sum(one[2] == "t" for one in of_all) == 2


@pytest.mark.parametrize(
    ("form", "ops"),
    [
        (OURS, ["c", "u", "d", None, "c", "d", None]),
        (Form(skipped=frozenset("cu")), ["d", None, "d", None]),
        (Form(skipped=frozenset("d")), ["c", "u", "c"]),
        (Form(tombstones=False), ["c", "u", "d", "c", "d"]),
    ],
)
def test_operations_and_tombstones_are_left_out_on_request(
    form: Form, ops: list[str | None]
) -> None:
    frames = [
        begin(200),
        describe(),
        insert(b"1", b"a"),
        update(b"N", row(b"1", b"b")),
        update(b"K", row(b"1", None), b"N", row(b"2", b"b")),
        b"D" + pack(">I", 1) + b"K" + row(b"2", None),
        commit(200),
    ]
    records = transcribe(transcriber(form=form), *frames)[TOPIC]
    assert [one["value"] and parsed(one)["op"] for one in records] == ops
    many = transcriber(form=form)
    feed = ColumnarFeed(many, SourceContext("1", "s", "db", form), lambda _topic: 3)
    feed.feed(Arrived.of([frame(one, 100 + i) for i, one in enumerate(frames)]), NOW_US)
    (made,) = (of for topic, of in many.take().records.items() if topic == TOPIC)
    assert made == records


WITHOUT_NOT_NULL = Form(schemas=True, decimals="precise")


@pytest.mark.parametrize("old_and_new", [(b"a", b"a"), (None, b"a"), (b"a", None)])
def test_null_in_a_column_that_is_not_null_by_now_has_a_schema_that_lets_it_by(
    old_and_new: tuple[bytes | None, bytes | None],
) -> None:
    def whole(message: RelationMessage, xid: int, lsn: int) -> Relation:
        found = transcribed.relation(message, xid, lsn)
        required = tuple(column._replace(nullable=False) for column in found.columns)
        return replace(found, columns=required, replica_identity="f")

    old, new = old_and_new
    context = SourceContext("1", "s", "db", WITHOUT_NOT_NULL)
    made = Transcriber(context, whole, lambda _r, _k, _x: None, lambda _topic: 3, 50)
    change = update(b"O", row(b"1", old), b"N", row(b"1", new))
    records = transcribe(made, begin(200), describe(), change, commit(200))[TOPIC]
    event = parsed(records[0])
    for image, value in zip(("before", "after"), old_and_new, strict=True):
        (fields,) = (
            {of["field"]: of["optional"] for of in field["fields"]}
            for field in event["schema"]["fields"]
            if field["field"] == image
        )
        assert fields["a"] == (None in old_and_new)
        assert event["payload"][image]["a"] == (value and value.decode())
