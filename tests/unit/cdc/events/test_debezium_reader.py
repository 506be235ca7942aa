"""Events of a Debezium connector, as views read them."""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from cdc.debezium.topic_reader import DebeziumReader
from cdc.errors import LogError, RetryableError
from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM
from cdc.events.readers.columns import ColumnKind
from cdc.events.readers.debezium import (
    BEGUN_ANEW,
    OTHER_COLUMNS,
    DebeziumRecords,
    OtherColumnsError,
    Snapshot,
    TableShape,
    parse_snapshot,
)
from cdc.events.readers.records import UNREADABLE

FORM = replace(DEBEZIUM, skipped=frozenset())
COLUMNS = {
    "id": ColumnKind("int4", nullable=False),
    "at": ColumnKind("timestamp"),
    "note": ColumnKind("text"),
    "photo": ColumnKind("bytea", nullable=False),
    "size": ColumnKind("numeric", typmod=(10 << 16 | 2) + 4),
    "bits": ColumnKind("array", "array", element="float8", nullable=False),
}
SHAPE = TableShape("v1", COLUMNS, ["id"], 50)
ROW = {"id": 1, "at": 1000001, "note": "n", "photo": "AP8=", "size": "+w==", "bits": [1.5]}
KEY = b'{"schema":{"type":"struct"},"payload":{"id":1}}'


def event(
    op: str = "u",
    after: dict[str, Any] | None = ROW,
    before: dict[str, Any] | None = None,
    sequence: str = '["100","104"]',
    xid: int = 7,
    **source: Any,
) -> bytes:
    of = {"snapshot": "false", "sequence": sequence, "txId": xid, "lsn": 104, **source}
    payload = {"before": before, "after": after, "source": of, "op": op}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload}, separators=(",", ":")
    ).encode()  # fmt: skip


def read(
    value: bytes, snapshot: Snapshot | None = None, *shapes: TableShape, key: bytes | None = KEY
) -> dict[str, Any]:
    own_key, found = DebeziumRecords(FORM, [SHAPE, *shapes], snapshot).record(key, value)
    assert found is not None
    assert not found.startswith(UNREADABLE), found
    assert own_key in (b'{"id":1}', None)
    document: dict[str, Any] = json.loads(found)
    return document


def position(value: bytes, snapshot: Snapshot | None = None) -> tuple[int, int]:
    source = read(value, snapshot)["source"]
    return source["commit_lsn"], source["ordinal"]


def test_an_event_gets_values_version_and_position_of_the_default_form() -> None:
    found = read(event())
    assert found["after"] == {
        "id": 1, "at": "1970-01-01T00:00:01.000001Z", "note": "n", "photo": "AP8=",
        "size": "-0.05", "bits": [1.5],
    }  # fmt: skip
    assert (found["source"]["schema_id"], found["op"]) == ("v1", "u")
    assert "unchanged" not in found["source"]
    assert position(event()) == (100, 104)
    assert position(event(sequence='[null,"104"]')) == (0, 104)


def test_values_that_an_update_left_out_are_told_by_what_stands_for_them() -> None:
    """Where that is null, by a column that is never null."""
    sign = b64encode(PLACEHOLDER.encode()).decode()
    found = read(event(after={**ROW, "note": PLACEHOLDER, "photo": sign, "bits": None}))
    assert found["source"]["unchanged"] == ["note", "photo", "bits"]
    assert {found["after"][name] for name in ("note", "photo", "bits")} == {PLACEHOLDER}


def test_of_the_image_before_only_the_key_counts() -> None:
    zero = {"id": 1, "at": 0, "note": "", "photo": "", "size": "AA==", "bits": []}
    assert read(event("d", None, zero))["before"] == {"id": 1}


def test_a_tombstone_stays_and_a_truncate_has_a_position() -> None:
    assert DebeziumRecords(FORM, [SHAPE]).record(b"k", None) == (b"k", None)
    found = read(event("t", None), key=None)
    assert found["source"]["schema_id"] == "v1"
    assert found["source"]["commit_lsn"] == 100


SNAPSHOTS = [
    # (the transaction, whether a snapshot with xmax 1000 and 990 still running has it)
    (989, True),
    (990, False),
    (999, True),
    (1000, False),
    (1 << 31, False),
]


@pytest.mark.parametrize(("xid", "has_it"), SNAPSHOTS)
def test_what_a_mirror_was_filled_without_stands_above_its_fill(xid: int, has_it: bool) -> None:
    """Also where the transaction before it ended below."""
    snapshot = parse_snapshot(110, "990:1000:990")
    assert position(event(xid=xid), snapshot) == ((100, 104) if has_it else (110, 104))
    later = event(xid=xid, sequence='["120","124"]')
    assert position(later, snapshot) == (120, 124)


def test_transactions_are_told_across_a_wraparound_of_their_numbers() -> None:
    snapshot = parse_snapshot(110, f"{(5 << 32) - 3}:{(5 << 32) + 2}:{(5 << 32) - 1}")
    assert snapshot.has((1 << 32) - 2)
    assert not snapshot.has((1 << 32) - 1)
    assert snapshot.has(1)
    assert not snapshot.has(2)


def test_rows_of_the_connectors_own_snapshots_are_no_changes() -> None:
    found = read(event("r", snapshot="true", lsn=90))["source"]
    assert (found["commit_lsn"], found["ordinal"], found["schema_id"]) == (90, 0, BEGUN_ANEW)
    assert position(event("r", snapshot="incremental", lsn=90)) == (0, 0)


def test_versions_are_told_by_their_columns() -> None:
    more = {**COLUMNS, "city": ColumnKind("text")}
    found = read(event(after={**ROW, "city": "Roma"}), None, TableShape("v2", more, ["id"], 60))
    assert found["source"]["schema_id"] == "v2"
    other = event(after={"id": 1, "name": "x"})
    records = DebeziumRecords(FORM, [SHAPE])
    with pytest.raises(OtherColumnsError):
        records.record(KEY, other)
    _, told = records.record(KEY, other, is_certain=True)
    assert json.loads(told or b"")["source"]["schema_id"] == f"{OTHER_COLUMNS}id,name"


UNREAD = [
    b"no json",
    event(sequence="no list"),
    event(after={**ROW, "at": "yesterday"}),
    event("r", snapshot="true", lsn=None),
]


@pytest.mark.parametrize("value", UNREAD)
def test_what_is_no_event_of_the_table_is_never_taken_for_one(value: bytes) -> None:
    assert DebeziumRecords(FORM, [SHAPE]).record(KEY, value) == (KEY, UNREADABLE + value)


def test_an_event_with_another_key_than_the_tables_is_not_read() -> None:
    key = b'{"name":"n"}'
    assert DebeziumRecords(FORM, [SHAPE]).record(key, event()) == (key, UNREADABLE + event())


class Source:
    """What is described; ``looks`` counts how often it was asked."""

    def __init__(self, *shapes: TableShape) -> None:
        self.shapes, self.looks = {"t": list(shapes)}, 0

    def __call__(self) -> dict[str, list[TableShape]]:
        self.looks += 1
        return self.shapes


def test_a_new_version_is_looked_up_once_and_older_events_are_read_on() -> None:
    source = Source(SHAPE)
    reader = DebeziumReader(FORM, source)
    assert len(reader.raw("t", [(KEY, event(), 0), (b"k", None, 1)])) == 2
    more = {**COLUMNS, "city": ColumnKind("text")}
    source.shapes["t"].append(TableShape("v2", more, ["id"], 60))
    new = event(after={**ROW, "city": None})
    found = reader.raw("t", [(KEY, new, 2), (KEY, event(), 3), (KEY, new, 4)])
    assert [json.loads(value or b"")["source"]["schema_id"] for _, value, _ in found] == [
        "v2", "v1", "v2",
    ]  # fmt: skip
    assert source.looks == 2


def test_columns_that_no_version_has_are_told_in_the_end() -> None:
    """Until then their table's mirror is filled anew: DDL may have come and gone."""
    reader = DebeziumReader(FORM, Source(SHAPE))
    other = event(after={name: value for name, value in ROW.items() if name != "bits"})
    for offset in range(3):
        ((_, value, _),) = reader.raw("t", [(KEY, other, offset)])
        assert json.loads(value or b"")["source"]["schema_id"].startswith(OTHER_COLUMNS)
    with pytest.raises(LogError, match="they lack bits, and have none besides"):
        reader.raw("t", [(KEY, other, 3)])


def test_a_reader_of_tasks_asks_nobody_and_knows_the_snapshots() -> None:
    source = Source(SHAPE)
    reader = DebeziumReader(FORM, source)
    reader.know({"t": (110, "990:1000:990")})
    assert reader.epoch == 1
    reader.know({"t": (110, "990:1000:990")})
    assert reader.epoch == 1
    of_task = pickle.loads(pickle.dumps(reader.for_tasks()))
    ((_, value, _),) = of_task.raw("t", [(KEY, event(xid=1000), 0)])
    assert json.loads(value or b"")["source"]["commit_lsn"] == 110
    ((_, value, _),) = of_task.raw("t", [(KEY, event(after={"id": 1}), 0)])
    assert json.loads(value or b"")["source"]["schema_id"].startswith(OTHER_COLUMNS)
    with pytest.raises(RetryableError, match="not described yet"):
        of_task.raw("u", [(KEY, event(), 0)])
    assert source.looks == 1
