"""Rows as values are what Debezium's ``ExtractNewRecordState`` makes of the same events.

Recorded by ``python -m tests.oracle.record_flat``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle.flat_records import Case, HeaderCase, cases, header_cases
from tests.oracle.record_flat import RECORDED

RECORDS: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", list(cases()), ids=lambda one: one.name)
def test_a_row_is_debeziums_with_its_schema_and_the_order_of_its_fields(one: Case) -> None:
    theirs = RECORDS[one.name]
    if not one.row:
        assert theirs in ("dropped", "tombstone")
        assert (theirs == "tombstone") == one.name.startswith("tombstone")
        return
    ours = json.loads(one.row)
    assert ours == theirs
    assert [list(ours[part]) for part in ours] == [list(theirs[part]) for part in theirs]


@pytest.mark.parametrize("one", list(header_cases()), ids=lambda one: one.name)
def test_headers_are_debeziums_as_kafka_connect_writes_them(one: HeaderCase) -> None:
    theirs = RECORDS[one.name]
    if one.headers is None:
        assert theirs == "dropped"
    else:
        assert [tuple(header) for header in theirs] == one.headers
