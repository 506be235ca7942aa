"""Timeline history files."""

from __future__ import annotations

import pytest

from cdc.capture.reconciliation import branch_fault
from cdc.errors import SourceError
from cdc.events.marks import Mark
from cdc.source.timelines import branched_at, parse_history, read_history

FILE = "1\t0/3000158\tno recovery target specified\n\n2\t1/A0\tbefore 2026-01-01\n"


def test_the_first_branch_of_a_timeline_is_where_it_was_left() -> None:
    history = parse_history("# made by hand\n" + FILE)
    assert branched_at(history, 1) == 0x3000158
    assert branched_at(history, 2) == 0x1000000A0
    assert branched_at(history, 3) is None


def test_what_is_no_history_is_refused() -> None:
    with pytest.raises(SourceError, match="unknown line"):
        parse_history("one two\n")


def test_the_first_timeline_has_no_ancestors() -> None:
    assert read_history("host=nowhere.invalid", 1) == []


@pytest.mark.parametrize(
    ("confirmed", "newest", "covered", "said"),
    [
        (900, 800, 900, None),
        (1000, 999, 1000, None),
        (900, 1000, 900, "the promoted server never had"),
        (1001, 800, 1001, "would be skipped"),
        # Of the old server's WAL, nothing of it captured; Kafka has yet to acknowledge the rest.
        (900, 800, 1001, "Start capture again"),
    ],
)
def test_a_promoted_server_is_followed_only_from_below_the_fork(
    confirmed: int, newest: int, covered: int, said: str | None
) -> None:
    mark = Mark(confirmed, {}, "7", 1, "db", "slot")
    fault = branch_fault(mark, 2, 1000, lambda: newest, covered)
    if said is None:
        assert fault is None
    else:
        assert fault is not None
        assert said in f"{fault.message}: {fault.hint}"
