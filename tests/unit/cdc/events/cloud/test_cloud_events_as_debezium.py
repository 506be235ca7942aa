"""CloudEvents are those that Debezium's ``CloudEventsConverter`` makes of the same events, but for
an ``id`` that no other event has.

Recorded by ``python -m tests.oracle.record_cloud``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle.cloud_records import Case, cases
from tests.oracle.record_cloud import RECORDED

RECORDS: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", list(cases()), ids=lambda one: one.name)
def test_an_event_is_debeziums_in_attributes_data_and_their_order(one: Case) -> None:
    theirs, ours = RECORDS[one.name]["event"], json.loads(one.cloud_event)
    own, _, place = ours["id"].rpartition(";")
    assert (own, place) == (theirs["id"], "row:-1" if one.name == "r" else "ordinal:3")
    assert {**ours, "id": own} == theirs
    assert list(ours) == list(theirs)
    assert list(ours["data"]) == list(theirs["data"])
