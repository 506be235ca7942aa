"""Changes: what transactions become, table by table, without a server."""

from __future__ import annotations

import json
from dataclasses import replace
from struct import pack

from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from tests.support.events.transcribed import (
    NOW_US,
    TOPIC,
    begin,
    commit,
    describe,
    insert,
    parsed,
    relation,
    row,
    transcribe,
    transcriber,
    update,
)


def test_events_of_a_transaction_are_numbered_from_one() -> None:
    made = transcriber()
    records = transcribe(
        made, begin(200), describe(), insert(b"1", b"x"), insert(b"2", None), commit(200)
    )
    first, second = (parsed(r)["source"] for r in records[TOPIC])
    assert [(s["commit_lsn"], s["ordinal"]) for s in (first, second)] == [(200, 1), (200, 2)]
    assert [s["lsn"] for s in (first, second)] == [102, 103]
    assert made.committed_lsn == 208
    assert not made.in_transaction


def test_the_sequence_names_the_end_of_the_transaction_before() -> None:
    made = transcriber()
    records = transcribe(
        made,
        begin(200), describe(), insert(b"1", b"x"), commit(200),
        begin(300), insert(b"2", b"y"), commit(300),
    )  # fmt: skip
    sequences = [json.loads(parsed(r)["source"]["sequence"]) for r in records[TOPIC]]
    assert sequences == [[None, "102"], ["208", "105"]]


def test_the_description_of_a_table_stands_in_the_schemas_topic() -> None:
    made = transcriber()
    assert transcribe(made, begin(200), describe()) == {}
    (schema,) = transcribe(made, insert(b"1", b"x"))["s.__schemas"]
    described = parsed(schema)
    assert schema["key"] == described["schema_id"].encode()
    assert [column["name"] for column in described["columns"]] == ["id", "a"]


def test_of_many_partitions_only_tables_with_rows_are_described_and_once_a_transaction() -> None:
    """The server describes each partition, and its root again with each: their rows are the
    root's."""
    asked: list[tuple[str, int, int]] = []

    def resolve(message: RelationMessage, xid: int, lsn: int) -> Relation:
        asked.append((message.table, xid, lsn))
        return relation(message)

    made = Transcriber(
        SourceContext("1", "s", "db"), resolve, lambda _r, _k, _x: None, lambda _topic: 3, 50
    )
    partitions = [
        frames for i in range(100) for frames in (describe(), describe(f"p{i}", 1000 + i))
    ]
    first = transcribe(made, begin(200), *partitions, insert(b"1", b"x"))
    assert len(first["s.__schemas"]) == 1
    records = transcribe(made, *partitions, insert(b"2", b"x"), commit(200))
    assert list(records) == [TOPIC]
    assert asked == [("t", 7, 200)]
    # Behind DDL another transaction brings it again.
    transcribe(made, begin(300), describe(), insert(b"3", b"x"), commit(300))
    assert asked == [("t", 7, 200), ("t", 7, 300)]


def test_a_key_change_is_a_delete_its_tombstone_and_a_create() -> None:
    moved = update(b"K", row(b"1", None), b"N", row(b"2", b"x"))
    records = transcribe(transcriber(), begin(200), describe(), moved)[TOPIC]
    delete, tombstone, create = records
    assert (delete["key"], tombstone["key"], create["key"]) == (
        b'{"id":1}', b'{"id":1}', b'{"id":2}',
    )  # fmt: skip
    assert tombstone["value"] is None
    assert tombstone["headers"] == delete["headers"]
    assert delete["headers"] == [("__debezium.newkey", b'{"id":2}')]
    assert create["headers"] == [("__debezium.oldkey", b'{"id":1}')]
    assert [parsed(r)["op"] for r in (delete, create)] == ["d", "c"]
    assert [parsed(r)["source"]["ordinal"] for r in (delete, create)] == [1, 2]
    assert parsed(delete)["before"] == {"id": 1, "a": None}


def test_a_moved_row_with_unchanged_toast_is_read_from_the_source() -> None:
    moved = update(b"K", row(b"1", None), b"N", row(b"2", "u"))
    records = transcribe(transcriber([b"2", b"big"]), begin(200), describe(), moved)[TOPIC]
    assert parsed(records[2])["after"] == {"id": 2, "a": "big"}


def test_a_moved_row_that_is_gone_keeps_the_placeholder() -> None:
    moved = update(b"K", row(b"1", None), b"N", row(b"2", "u"))
    records = transcribe(transcriber(None), begin(200), describe(), moved)[TOPIC]
    assert parsed(records[2])["after"]["a"] == "__debezium_unavailable_value"


def test_a_full_old_row_gives_unchanged_toast_its_value() -> None:
    changed = update(b"O", row(b"1", b"big"), b"N", row(b"1", "u"))
    (record,) = transcribe(transcriber(), begin(200), describe(), changed)[TOPIC]
    assert parsed(record)["after"] == {"id": 1, "a": "big"}
    assert parsed(record)["before"] == {"id": 1, "a": "big"}


def test_a_truncate_goes_to_every_partition_at_one_position() -> None:
    truncate = b"T" + pack(">IBI", 1, 0, 1)
    records = transcribe(transcriber(), begin(200), describe(), truncate)[TOPIC]
    assert [record["partition"] for record in records] == [0, 1, 2]
    assert {parsed(record)["source"]["ordinal"] for record in records} == {1}


def test_events_without_a_key_keep_their_order_in_one_partition() -> None:
    rows = describe("keyless", 1)
    records = transcribe(transcriber(), begin(200), rows, insert(b"1", b"x"), insert(b"2", b"y"))
    assert [(r["key"], r["partition"]) for r in records["s.public.keyless"]] == [(None, 0)] * 2


def test_a_topic_is_asked_for_with_the_first_row_and_not_with_a_description() -> None:
    """The server describes a partition, too, whose rows are its root's: it gets no topic."""
    asked: list[str] = []

    def partitions(topic: str) -> int:
        asked.append(topic)
        return 3

    context = SourceContext("1", "s", "db")
    made = Transcriber(context, relation, lambda _r, _k, _x: None, partitions, 50)
    transcribe(made, begin(200), describe("t", 1), describe("t_1", 2), insert(b"1", b"x"))
    assert asked == ["s.public.t"]


def test_a_message_outside_of_a_transaction_leaves_none_open() -> None:
    message = b"M" + pack(">BQ", 0, 500) + b"p\0" + pack(">I", 2) + b"hi"
    made = transcriber()
    (record,) = transcribe(made, message)["s.message"]
    value = parsed(record)
    assert list(value) == ["op", "ts_ms", "source", "transaction", "message"]
    assert value["message"] == {"prefix": "p", "content": "aGk="}
    assert value["source"]["txId"] is None
    assert not made.in_transaction


def test_a_message_outside_of_transactions_is_not_where_the_next_transaction_commits() -> None:
    """Its LSN is its record's end, where the next record, a commit perhaps, begins: at the same
    position a restart would take that transaction's first event for one that Kafka holds."""
    message = b"M" + pack(">BQ", 0, 200) + b"p\0" + pack(">I", 2) + b"hi"
    within = b"M" + pack(">BQ", 1, 200) + b"p\0" + pack(">I", 2) + b"ho"
    records = transcribe(transcriber(), message, begin(200), within, commit(200))["s.message"]
    alone, first = [parsed(record)["source"] for record in records]
    assert (alone["commit_lsn"], alone["ordinal"]) < (first["commit_lsn"], first["ordinal"])
    assert alone["commit_lsn"] == 199


def unchanged_of(*payloads: bytes) -> list[str] | None:
    (record,) = transcribe(transcriber(), begin(200), describe(), *payloads)[TOPIC]
    unchanged: list[str] | None = parsed(record)["source"].get("unchanged")
    return unchanged


def test_a_value_that_was_left_alone_is_told_from_text_that_looks_like_it() -> None:
    placeholder = b"__debezium_unavailable_value"
    assert unchanged_of(update(b"N", row(b"1", b"x"))) is None
    assert unchanged_of(update(b"N", row(b"1", "u"))) == ["a"]
    assert unchanged_of(update(b"N", row(b"1", placeholder))) == []
    assert unchanged_of(insert(b"1", placeholder)) == []
    assert unchanged_of(insert(b"1", b"x")) is None


def without_a(message: RelationMessage, _xid: int, _lsn: int) -> Relation:
    found = relation(message)
    return replace(found, columns=tuple(one for one in found.columns if one.name != "a"))


def test_a_column_that_must_not_leave_is_in_no_event_whatever_was_sent() -> None:
    made = Transcriber(
        SourceContext("1", "s", "db"), without_a, lambda _r, _k, _x: None, lambda _topic: 3, 50
    )
    made.clock(NOW_US)
    records = transcribe(
        made,
        begin(200), describe(), insert(b"1", b"SECRET"),
        update(b"N", row(b"1", b"SECRET")), update(b"N", row(b"1", "unchanged")),
        update(b"K", row(b"1", None), b"N", row(b"2", b"SECRET")),
        update(b"O", row(b"2", b"SECRET"), b"N", row(b"2", b"SECRET")),
        b"D" + pack(">I", 1) + b"O" + row(b"2", b"SECRET"), commit(200),
    )  # fmt: skip
    assert b"SECRET" not in repr(records).encode()
    events = [parsed(one) for one in records[TOPIC] if one["value"] is not None]
    assert [one["op"] for one in events] == ["c", "u", "u", "d", "c", "u", "d"]
    assert events[0]["after"] == {"id": 1}
    assert all("unchanged" not in one["source"] for one in events)
    (described,) = map(parsed, records["s.__schemas"])
    assert [one["name"] for one in described["columns"]] == ["id"]
