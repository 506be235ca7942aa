"""A view's log in the form of a table's: events, places, and what cannot be gone on from."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from headwater.api.changes.event_position import event_of
from headwater.api.changes.frames import Walk
from headwater.api.changes.log_reader import GoneError
from headwater.api.changes.place import LogPlace, parse_place
from headwater.api.changes.selection import selection
from headwater.api.changes.view_log import entries_of, log_of, refuse, relation_of, row_event
from headwater.conditions.condition import ConditionError
from jobs.state.feeds.feed_reader import GONE, FeedPart, FeedState, LoggedChange

NOW = datetime(2026, 1, 2, tzinfo=UTC)
COLUMNS = (
    {"name": "id", "schema": "pg_catalog", "type": "int4", "kind": "base", "base": "int4",
     "typmod": -1},
    {"name": "total", "schema": "pg_catalog", "type": "numeric", "kind": "base",
     "base": "numeric", "typmod": -1},
    {"name": "added", "schema": "pg_catalog", "type": "text", "kind": "base", "base": "text",
     "typmod": -1},
)  # fmt: skip
STATE = FeedState(7, "sales", 2, "select", ("id",), COLUMNS, "e1", 100, 900, 0xABC)
CHANGES = (
    LoggedChange(300, '{"id":1}', '{"id":1,"total":"5.00"}', "c", 10, 3, NOW),
    LoggedChange(900, '{"id":1}', '{"id":1,"total":"5.00"}', "d", 11, 4, NOW),
)
PART = FeedPart("e1", 100, True, CHANGES)


def test_changes_are_events_of_a_table_and_the_id_behind_each_names_it() -> None:
    entries = entries_of("sales", PART, "e1", 101)
    walk = Walk(selection(relation_of(STATE), "", ""), LogPlace("0" * 8, "e1", 0, (101,)))
    created, deleted = walk.frames(entries)
    event = json.loads(created.data)
    assert event["after"] == {"id": 1, "total": "5.00"}
    assert (event["before"], event["op"], event["ts_ms"]) == (None, "c", 1_767_312_000_000)
    assert event["source"] == {"view": "sales", "commit_lsn": 10, "ordinal": 3}
    event = json.loads(deleted.data)
    assert (event["before"], event["after"]) == ({"id": 1, "total": "5.00"}, None)
    places = [parse_place(frame.id) for frame in (created, deleted)]
    assert [one.offsets for one in places if isinstance(one, LogPlace)] == [(301,), (901,)]
    log_of(STATE).refuse("e1", (901,))


@pytest.mark.parametrize(
    ("reason", "part", "number"),
    [
        ("", PART, 101),
        ("", PART._replace(changes=()), 901),
        ("rebuilt", PART._replace(epoch="e2"), 101),
        ("rebuilt", GONE, 101),
        ("retention", PART, 100),
        ("future", PART._replace(is_known=False), 555),
    ],
)
def test_who_cannot_go_on_is_told_why(reason: str, part: FeedPart, number: int) -> None:
    """A number that nobody wrote is of a state database that went back to an older copy."""
    if not reason:
        refuse("sales", part, "e1", number)
        return
    with pytest.raises(GoneError) as caught:
        entries_of("sales", part, "e1", number)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("reason", "epoch", "number"),
    [("rebuilt", "e0", 500), ("retention", "e1", 100), ("future", "e1", 902)],
)
def test_an_id_is_compared_before_a_client_goes_on(reason: str, epoch: str, number: int) -> None:
    with pytest.raises(GoneError) as caught:
        log_of(STATE).refuse(epoch, (number,))
    assert caught.value.reason == reason


def test_a_filter_takes_the_columns_as_documents_have_them() -> None:
    """A row that was written before the view got a column has null there."""
    relation = relation_of(STATE)
    chosen = selection(relation, "total > 4.5 and added is null", "")
    chosen = chosen._replace(nulls=dict.fromkeys(one.name for one in relation.columns))
    _, value = row_event("sales", '{"id":1}', '{"id":1,"total":"5.00"}', 10, 3)
    assert chosen.kind(event_of(value)) == "change"
    _, value = row_event("sales", '{"id":1}', '{"id":1,"total":"4.00"}', 10, 3)
    assert chosen.kind(event_of(value)) == "left"
    with pytest.raises(ConditionError, match=r"views\.sales has no column name"):
        selection(relation, "name = 'x'", "")
    assert selection(relation, "", "1").is_of_key(b'{"id":1}')
