"""What `view diff` says for people."""

from __future__ import annotations

from headwater.cli.view.diff import ViewDifference, said
from verification.rows_compared import RowsCompared


def difference(shown: int) -> ViewDifference:
    keys = [{"kind": "changed", "key": {"id": str(one)}} for one in range(shown)]
    return ViewDifference("v", 2, RowsCompared(900, 901, 5, 4, 238, {"name": 238}, keys), (), ())


def test_keys_that_are_not_shown_are_counted_with_the_option_for_more() -> None:
    assert said(difference(10))[-1] == "  … 237 more; `--keys N` shows more keys"


def test_nothing_is_said_where_all_are_shown() -> None:
    assert said(difference(247))[-1] == "  changed  id=246"
