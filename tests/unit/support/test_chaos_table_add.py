"""The chaos checker on a table that joins in midstream: rows of a snapshot beside its changes, and
transactions of before, of then, and of after. A good log, then one with a single fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.checks.fold import check_tables
from tests.chaos.checks.log import Log, Record
from tests.chaos.checks.stream import check_stream
from tests.chaos.lanes import summed
from tests.chaos.views.altered_columns import is_clear, touched
from tests.chaos.workload.truth import Change, Truth
from tests.unit.support.test_chaos_check import (
    SNAPSHOT,
    committed,
    good,
    put,
    record,
    remove,
    tombstone,
)

JOINING = "s.later.joining"
ROW = {"id": 1, "token": 50, "n": 0}
BEFORE, OPEN, AFTER = 50, 51, 52
"""Transactions: the table's changes of the first are in no stream."""


def change(op: str, key: int, token: int | None) -> Change:
    return Change(op, "later.joining", f'{{"id":{key}}}', token)


def joined() -> tuple[Log, Truth, dict[str, list[dict[str, str | None]]]]:
    """Published at 510, read at 540: key 1 as it was then, key 2 deleted and made again."""
    log, truth, contents = good()
    truth.joins_lsn, truth.joined_lsn = 500, 520
    truth.commit(committed(3, BEFORE, 450, 490, change("c", 1, 50), change("c", 2, 51)))
    truth.commit(committed(3, OPEN, 495, 515, change("u", 1, 52), change("u", 2, 53)))
    last = change("d", 2, None), change("c", 3, 60), change("u", 1, 61)
    truth.commit(committed(3, AFTER, 530, 560, *last))
    log.events[JOINING, 0] = [
        record(0, "u", 2, (512, 1), OPEN, {"id": 2, "token": 53, "n": 1}),
        record(1, "d", 2, (550, 1), AFTER, None, {"id": 2, "token": None, "n": None}),
        record(2, "r", 2, (540, 0), None, {"id": 2, "token": 53, "n": 1}),
        tombstone(3, 2),
        record(4, "c", 3, (550, 2), AFTER, {"id": 3, "token": 60, "n": 0}),
        record(5, "u", 1, (550, 3), AFTER, {"id": 1, "token": 61, "n": 2}),
        record(6, "r", 1, (540, 0), None, {"id": 1, "token": 52, "n": 1}),
    ]
    log.events[JOINING, 1] = []
    contents["later.joining"] = [
        {"id": "1", "token": "61", "n": "2"},
        {"id": "3", "token": "60", "n": "0"},
    ]
    return log, truth, contents


def findings(log: Log, truth: Truth, contents: dict[str, list[dict[str, str | None]]]) -> list[str]:
    return check_stream(log, truth, "s", SNAPSHOT) + list(check_tables(log, contents, "s"))


def streamed(offset: int, token: int, at: tuple[int, int], xid: int) -> Record:
    return record(offset, "c", 9, at, xid, {"id": 9, "token": token, "n": 0})


def test_rows_beside_changes_are_found_to_be_good() -> None:
    assert findings(*joined()) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (remove(JOINING, 0, 4), "lost 1 x Change(op='c'"),
        (remove(JOINING, 0, 3), "no tombstone before it"),
        (put(JOINING, 0, 0, streamed(9, 50, (490, 1), BEFORE)), "surplus 1 x Change(op='c'"),
        (put(JOINING, 0, 1, streamed(9, 99, (512, 2), OPEN)), "surplus 1 x Change(op='c'"),
        (put(JOINING, 0, 5, streamed(9, 60, (550, 2), AFTER)), "position goes back"),
        (remove(JOINING, 0, 5), "token is '52' in the events, '61' in the table"),
        (put("s.public.item", 0, 6, record(9, "r", 8, (90, 0), None, ROW)), "behind the stream"),
    ],
)
def test_each_fault_is_found(fault: Callable[[Log], None], said: str) -> None:
    log, truth, contents = joined()
    fault(log)
    assert said in "\n".join(findings(log, truth, contents))


def test_a_row_that_the_stream_does_not_tell_of_is_missed() -> None:
    log, truth, contents = joined()
    contents["later.joining"].append({"id": "7", "token": "70", "n": "0"})
    assert 'later.joining {"id":7} is not in the events (1 such rows)' in findings(
        log, truth, contents
    )


def test_figures_of_lanes_are_summed() -> None:
    one = {"seeds": 2, "failures": [3], "faults": {"a": 1, "b": 1}, "seconds": 5.0}
    other = {"seeds": 1, "failures": [], "faults": {"b": 2}, "seconds": 7.0}
    both = {"seeds": 3, "failures": [3], "faults": {"a": 1, "b": 3}, "seconds": 7.0}
    assert summed([one, other]) == both


def test_an_error_of_the_view_that_ddl_touches_has_to_say_what_is_wrong() -> None:
    view = touched("s", 1).view
    assert "noted" in view.sql
    assert "{" not in view.sql
    assert is_clear(f"view {view.name}: column noted is not there any more")
    assert not is_clear(f"view {view.name}: KeyError: 3")
