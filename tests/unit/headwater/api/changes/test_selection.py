"""What a client with a filter is told of each event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.errors import UsageError
from cdc.events.form import DEBEZIUM, Form
from headwater.api.changes.event_position import (
    Event,
    ForeignRecordError,
    event_of,
    refuse_unread,
)
from headwater.api.changes.selection import selection
from headwater.conditions.condition import ConditionError
from tests.unit.headwater.conditions.orders import FULL, KEYLESS, ORDERS, ROW


def event(op: str, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> Event:
    value = {"op": op, "before": before, "after": after, "source": {"commit_lsn": 8, "ordinal": 1}}
    return event_of(json.dumps(value).encode())


OPEN, CLOSED = ROW, {**ROW, "status": "closed"}


@pytest.mark.parametrize(
    ("told", "op", "after", "before"),
    [
        ("change", "c", OPEN, None),
        ("", "c", CLOSED, None),
        ("change", "u", OPEN, None),
        ("left", "u", CLOSED, None),
        ("left", "r", CLOSED, None),
        ("change", "d", None, OPEN),
        ("change", "t", None, None),
    ],
)
def test_a_row_that_leaves_the_filter_is_told(
    told: str, op: str, after: dict[str, Any] | None, before: dict[str, Any] | None
) -> None:
    chosen = selection(ORDERS, "status = 'open'", "")
    assert chosen.kind(event(op, after, before)) == told


def test_old_images_tell_what_was_never_in_it() -> None:
    chosen = selection(FULL, "status = 'open'", "")
    assert chosen.kind(event("u", CLOSED, CLOSED)) == ""
    assert chosen.kind(event("u", CLOSED, OPEN)) == "left"
    assert chosen.kind(event("u", OPEN, CLOSED)) == "change"


def test_a_key_chooses_one_row_and_what_has_no_key() -> None:
    for text in ("7", '{"id": 7}', '{"id": "7"}'):
        chosen = selection(ORDERS, "", text)
        assert chosen.is_of_key(b'{"id":7}')
        assert not chosen.is_of_key(b'{"id":8}')
        assert chosen.is_of_key(None)


@pytest.mark.parametrize("text", ["x", "{}", '{"id": 1, "more": 2}', '{"id": null}', "{", "[7]"])
def test_a_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="key"):
        selection(ORDERS, "", text)


def test_a_table_without_a_key_has_no_row_to_choose() -> None:
    with pytest.raises(ConditionError, match="no key"):
        selection(KEYLESS, "", "7")


def test_ids_of_other_filters_are_told_apart() -> None:
    digests = {
        selection(ORDERS, where, key).digest
        for where in ("", "id = 7", "id = 8") for key in ("", "7")
    }  # fmt: skip
    assert len(digests) == 6
    assert selection(ORDERS, "", "").everything


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"7", b'{"source": 1}', b'{"source": {}}',
                                   b'{"source": {"commit_lsn": "x", "ordinal": 1}}'])  # fmt: skip
def test_what_is_no_event_is_no_event(value: bytes) -> None:
    with pytest.raises(ForeignRecordError):
        event_of(value)


def test_events_of_another_form_are_refused_clearly() -> None:
    refuse_unread(Form())
    for form in (
        DEBEZIUM,
        Form(schemas=True),
        Form(skipped=frozenset("d")),
        Form(decimals="double"),
    ):
        with pytest.raises(UsageError, match="default form"):
            refuse_unread(form)
