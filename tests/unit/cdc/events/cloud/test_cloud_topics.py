"""Topics of CloudEvents: each record says what it is and where it stands, no id is there twice, and
a restart repeats none."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.capture.duplicate_filter import KafkaReplay, Tail
from cdc.columnar.formats.snapshot import snapshot_encoder
from cdc.columnar.snapshot import SNAPSHOT_MARKERS
from cdc.events.change_encoder import change_encoder
from cdc.events.envelope import SourceContext, Transaction
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.kafka.partition_ends import scan
from tests.support.events.random_frames import relation, streams
from tests.support.events.transcribed import (
    TOPIC,
    begin,
    commit,
    describe,
    insert,
    row,
    transcribe,
    transcriber,
    update,
)
from tests.unit.cdc.events.flat.test_row_topics import DELETE, NOW_US, PARTITIONS, streamed, written

CLOUD = Form(content="cloudevents")
FORMS = [CLOUD, replace(DEBEZIUM, content="cloudevents", skipped=frozenset())]


def test_each_record_says_what_it_is_and_where_it_stands() -> None:
    made = transcribe(
        transcriber(form=CLOUD), begin(200), describe(), insert(b"1", b"x"), DELETE,
        update(b"K", row(b"1", None), b"N", row(b"2", "unchanged")), b"T\0\0\0\1\0\0\0\0\1",
        commit(200),
    )[TOPIC]  # fmt: skip
    ids = []
    for record in made:
        headers = dict(record.get("headers", []))
        assert (headers["position"] or b"").startswith(b"%016X" % 200)
        if record["value"] is None:
            assert "content-type" not in headers
            continue
        assert headers["content-type"] == b"application/cloudevents+json; charset=UTF-8"
        event = json.loads(record["value"])
        ids.append((event["id"], event["iodebeziumop"]))
    assert [op for _, op in ids] == ["c", "d", "d", "c", "t", "t", "t"]
    assert len({id_ for id_, _ in ids}) == 5  # a truncate is one event in three partitions


def test_unchanged_large_values_are_named() -> None:
    (record,) = transcribe(
        transcriber(form=CLOUD), begin(200), describe(), update(b"N", row(b"1", "unchanged")),
        commit(200),
    )[TOPIC]  # fmt: skip
    event: dict[str, Any] = json.loads(record["value"] or b"")
    assert event["data"]["after"]["a"] == "__debezium_unavailable_value"
    assert json.loads(event["iodebeziumunchanged"]) == ["a"]


@pytest.mark.parametrize("form", FORMS, ids=["ours", "preset"])
@settings(max_examples=25, deadline=None)
@given(stream=streams(), data=st.data())
def test_after_a_crash_each_partition_gets_what_it_lacks_and_nothing_twice(
    form: Form, stream: tuple[tuple[str, ...], list[list[bytes]]], data: st.DataObject
) -> None:
    whole = streamed(form, *stream, None)
    kept, tails = {}, {}
    for place, records in whole.items():
        kept[place] = records[: data.draw(st.integers(0, len(records)))]
        last, made_it = scan(place[0], written(place, kept[place]))
        tails[place] = Tail(None)
        if last is not None:
            tails[place] = Tail(last.position, last.owes_tombstone and not made_it)
    counts = {topic: PARTITIONS for topic, _ in whole}
    again = streamed(form, *stream, KafkaReplay(0, tails, counts))
    for place, records in whole.items():
        assert kept[place] + again.get(place, []) == records


def test_what_empties_two_topics_before_a_snapshot_has_two_ids() -> None:
    """All of it stands at one position, in no transaction."""
    context, ids = SourceContext("1", "s", "db", CLOUD), set()
    for name in ("a", 'b"'):
        shape = replace(relation(1, ["text"]), table=name)
        encoder = change_encoder(shape, context)
        encoder.begin(Transaction(799, NOW_US, None, None))
        value = encoder.value(b"null", b"null", b'"t"', 799, 0, b"")
        ids.add(json.loads(value)["id"])
    assert len(ids) == 2


def test_rows_of_a_snapshot_have_ids_of_their_own_whoever_reads_them() -> None:
    context = SourceContext("1", "s", "db", replace(OURS, content="cloudevents"))
    ids = set()
    for _ in range(2):
        encoder = snapshot_encoder(relation(1, ["text"]), context, 64, NOW_US)
        for block in (b"1\ta\n2\tb\n", b"3\tc\n"):
            keys, values = encoder.encode(block, block.count(b"\n"))
            assert len(set(keys)) == len(values)
            ids |= {json.loads(value)["id"] for value in values}
    assert len(ids) == 6
    for marker in SNAPSHOT_MARKERS:
        assert json.loads(encoder.marked(values[0], marker))["iodebeziumsnapshot"] == marker
