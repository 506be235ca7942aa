"""Transaction metadata against what real Debezium made of the same WAL, and after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from cdc.capture.duplicate_filter import KafkaReplay, SessionReplay, Tail
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Block, Record
from cdc.events.transactions import Ledger
from cdc.lsn import Position, parse_lsn
from cdc.protocol.relation import Relation
from tests.oracle.record import TRANSACTIONS
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    frame,
    insert,
    relation,
)
from tests.unit.cdc.events import test_events_as_debezium as oracle

RECORDED = json.loads(Path(TRANSACTIONS).read_text(encoding="utf-8"))
NAME = "oracle_transactions"


def resolve(message: Any, _xid: int = 0, _lsn: int = 0) -> Relation:
    oracle_types = oracle.RECORDED
    oracle.RECORDED = RECORDED  # the types' OIDs are this recording's
    try:
        return oracle.resolve(message)
    finally:
        oracle.RECORDED = oracle_types


def ours() -> dict[str, list[Any]]:
    made = Transcriber(
        SourceContext("1", NAME, NAME), resolve, lambda _r, _k, _x: None, lambda _t: 1, 0,
        ledger=Ledger(NAME),
    )  # fmt: skip
    for lsn, data in RECORDED["wal"]:
        start = parse_lsn(lsn)
        made.feed(pack(">cQQQ", b"w", start, start, 0) + bytes.fromhex(data))
    return {topic: list(map(parsed, records)) for topic, records in made.take().records.items()}


def parsed(record: Record | Block) -> Any:
    assert not isinstance(record, Block)
    return json.loads(record["value"]) if record["value"] else None


def theirs() -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for event in RECORDED["events"]:
        value = json.loads(event["value"]) if event["value"] else None
        topics.setdefault(event["topic"], []).append(value)
    return topics


def named(name: str) -> str:
    """Debezium names messages by a Java object."""
    return "message" if "LogicalDecodingMessageId@" in name else name


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Without the LSN in the id, and with collections in the order of their names."""
    collections = document.get("data_collections")
    if collections is not None:
        collections = sorted((named(c["data_collection"]), c["event_count"]) for c in collections)
        document = document | {"data_collections": collections}
    return document | {"id": document["id"].partition(":")[0]}


def test_begin_and_end_are_debeziums_but_for_the_id_and_the_name_of_messages() -> None:
    mine, debeziums = ours()[f"{NAME}.transaction"], theirs()[f"{NAME}.transaction"]
    assert list(mine[0]) == list(debeziums[0])
    assert list(map(comparable, mine)) == list(map(comparable, debeziums))
    assert len(mine) == 18


@pytest.mark.parametrize("table", ["public.plain", "public.whole", "public.compound", "message"])
def test_each_event_says_its_place_in_the_transaction_as_debeziums_does(table: str) -> None:
    topic = f"{NAME}.{table}"
    mine = [event and event["transaction"] for event in ours()[topic]]
    debeziums = [event and event["transaction"] for event in theirs()[topic]]
    assert [block and comparable(block) for block in mine] == [
        block and comparable(block) for block in debeziums
    ]
    assert any(block is not None for block in mine)


def test_one_id_names_a_transaction_everywhere() -> None:
    topics = ours()
    pairs = topics[f"{NAME}.transaction"]
    assert [b["id"] for b in pairs[::2]] == [e["id"] for e in pairs[1::2]]
    assert len({record["id"] for record in pairs}) == 9
    for topic, events in topics.items():
        for event in events:
            if event and event.get("transaction"):
                source = event["source"]
                assert event["transaction"]["id"] == f"{source['txId']}:{source['commit_lsn']}", (
                    topic
                )


def transcribed(replay: Any, *payloads: bytes) -> dict[str, list[Any]]:
    made = Transcriber(
        SourceContext("1", "s", "db"), relation, lambda _r, _k, _x: None, lambda _t: 1, 50,
        replay, ledger=Ledger("s"),
    )  # fmt: skip
    for payload in payloads:
        made.feed(frame(payload, 100))
    return {topic: list(map(parsed, records)) for topic, records in made.take().records.items()}


STREAM = (begin(200), describe(), insert(b"1", b"x"), insert(b"2", b"y"), commit(200))


@pytest.mark.parametrize(
    ("tail", "left"),
    [
        (None, ["BEGIN", "END"]),
        (Position(200, 1), ["END"]),
        (Position(200, 3), []),
    ],
)
def test_records_that_kafka_holds_are_not_published_again(
    tail: Position | None, left: list[str]
) -> None:
    tails = {("s.transaction", 0): Tail(tail), (TOPIC, 0): Tail(Position(200, 1))}
    partitions = {"s.transaction": 1, TOPIC: 1}
    topics = transcribed(KafkaReplay(100, tails, partitions), *STREAM)
    assert [record["status"] for record in topics.get("s.transaction", [])] == left
    assert [event["transaction"]["total_order"] for event in topics[TOPIC]] == [2]
    for record in topics.get("s.transaction", []):
        assert record["event_count"] in (None, 2)


@pytest.mark.parametrize(
    ("published", "left"), [(0, ["BEGIN", "END"]), (1, ["END"]), (2, ["END"]), (3, [])]
)
def test_a_session_that_was_cut_goes_on_where_it_was(published: int, left: list[str]) -> None:
    """0: the table's description was sent, and nothing of the transaction's events."""
    topics = transcribed(SessionReplay(Position(200, published), None), *STREAM)
    assert [record["status"] for record in topics.get("s.transaction", [])] == left


def test_a_transaction_without_events_has_no_records() -> None:
    assert transcribed(None, begin(200), commit(200)) == {}
