"""Timeline history files."""

from __future__ import annotations

import pytest

from cdc.errors import SourceError
from cdc.history import branched_at, parse_history, read_history

FILE = "1\t0/3000158\tno recovery target specified\n\n2\t1/A0\tbefore 2026-01-01\n"


def test_the_first_branch_of_a_timeline_is_where_it_was_left() -> None:
    history = parse_history("# made by hand\n" + FILE)
    assert branched_at(history, 1) == 0x3000158
    assert branched_at(history, 2) == 0x1000000A0
    assert branched_at(history, 3) is None


def test_what_is_no_history_is_refused() -> None:
    with pytest.raises(SourceError, match="not understood"):
        parse_history("one two\n")


def test_the_first_timeline_has_no_ancestors() -> None:
    assert read_history("host=nowhere.invalid", 1) == []
