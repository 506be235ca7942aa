"""Values that changes of histories leave out, over several versions of their table."""

from __future__ import annotations

import json

from jobs.run.stream.left_out_values import with_earlier_values
from jobs.state.batch.staging import Mirror, Record
from jobs.state.mirrors.table import NOWHERE, MirrorTable

TABLE = MirrorTable("s", "t", 7, "a", (), ("id",))
SHAPES = {"a": ("id", "body", "more"), "b": ("id", "more", "body"), "c": ("id", "text", None)}
MIRROR = Mirror(1, TABLE, 0, NOWHERE, SHAPES)


def put(version: str, *unchanged: str, key: str = "1", op: str = "u", **values: str) -> Record:
    image = None if op == "t" else json.dumps({"id": 1, **values} | dict.fromkeys(unchanged, "?"))
    return Record("s.t", op, 1, 1, version, image, unchanged, "t-0-0", key)


def known(*records: Record) -> tuple[dict[str, object], list[str]]:
    """The last one's values, and what is left out of it."""
    *_, last = with_earlier_values(records, {"s.t": MIRROR})
    return json.loads(last.image or "null"), list(last.unchanged)


def test_a_column_that_has_another_name_in_between_keeps_its_value() -> None:
    found = known(put("a", body="one"), put("c", text="two"), put("a", "body"))
    assert found == ({"id": 1, "body": "two"}, [])


def test_columns_that_have_exchanged_their_names() -> None:
    found = known(put("a", body="b1", more="m1"), put("b", "more", body="m2"))
    assert found == ({"id": 1, "body": "m2", "more": "b1"}, [])


def test_a_value_that_several_changes_leave_out() -> None:
    found = known(put("a", body="one"), put("c", "text"), put("c", "text"), put("a", "body"))
    assert found == ({"id": 1, "body": "one"}, [])


def test_what_only_a_row_of_a_snapshot_has_says_where_it_was_read() -> None:
    row = put("a", op="r", body="one")._replace(commit_lsn=50)
    *_, first, last = with_earlier_values(
        [row, put("c", "text"), put("a", "body")], {"s.t": MIRROR}
    )
    for record, name in ((first, "text"), (last, "body")):
        assert json.loads(record.image or "null")[name] == "one"
        assert (list(record.unchanged), record.read_lsn) == ([name], 50)


def test_what_a_version_does_not_have_and_what_is_another_row_s_is_left_out() -> None:
    assert known(put("a", more="m"), put("c", text="t"), put("a", "more"))[1] == ["more"]
    assert known(put("a", body="b"), put("c", "text", key="2"))[1] == ["text"]
    assert known(put("a", body="b"), put("a", op="d", body="b"), put("c", "text"))[1] == ["text"]


def test_nothing_is_known_from_before_a_truncate() -> None:
    truncate = put("a", op="t")._replace(key=None)
    assert known(put("a", body="b"), truncate, put("c", "text"))[1] == ["text"]
