"""Records of topics in another form, on their way from Kafka."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping
from typing import Self

import pytest

from cdc.errors import RetryableError
from cdc.events.form import DEBEZIUM
from cdc.events.readers.columns import ColumnKind
from cdc.events.readers.records import Raw
from cdc.kafka.event_reader import FormReader, fetched, stretches
from cdc.kafka.partition_reader import FetchedRecord

COLUMNS = {"v": {"id": ColumnKind("int4"), "day": ColumnKind("date")}}
VALUE = json.dumps(
    {
        "schema": {},
        "payload": {
            "before": None,
            "after": {"id": 1, "day": 0},
            "source": {"commit_lsn": 7, "ordinal": 1, "schema_id": "v"},
            "op": "c",
        },
    },
    separators=(",", ":"),
).encode()


class Loud:
    """Says what it was given."""

    epoch = 0

    def know(self, snapshots: Mapping[str, tuple[int, str]]) -> None: ...

    def raw(self, topic: str, records: Iterable[Raw]) -> list[Raw]:
        return [(key, topic.encode() + (value or b"-"), offset) for key, value, offset in records]

    def for_tasks(self) -> Self:
        return self


def reader() -> FormReader:
    return FormReader(DEBEZIUM, lambda: COLUMNS)


def test_records_keep_their_places() -> None:
    records = [FetchedRecord("a", 0, 5, b"k", b"v"), FetchedRecord("b", 1, 6, None, None)]
    assert fetched(None, records) is records
    assert [(r.partition, r.offset, r.value) for r in fetched(Loud(), records)] == [
        (0, 5, b"av"),
        (1, 6, b"b-"),
    ]
    some: list[list[Raw]] = [[(b"k", b"v", 1)], [(b"k", None, 2)]]
    assert stretches(None, "a", some) is some
    assert list(stretches(Loud(), "a", some)) == [[(b"k", b"av", 1)], [(b"k", b"a-", 2)]]


def test_a_reader_of_tasks_asks_nobody() -> None:
    of_task = pickle.loads(pickle.dumps(reader().for_tasks()))
    ((key, value, offset),) = of_task.raw("t", [(b'{"id":1}', VALUE, 3)])
    assert (key, offset) == (b'{"id":1}', 3)
    assert json.loads(value or b"")["after"] == {"id": 1, "day": "1970-01-01Z"}


def test_a_version_that_is_not_described_yet_is_waited_for() -> None:
    unknown = VALUE.replace(b'"schema_id":"v"', b'"schema_id":"w"')
    with pytest.raises(RetryableError, match="t: the event at offset 3 arrived before"):
        reader().raw("t", [(b'{"id":1}', unknown, 3)])
