"""A view that is loaded in turns: what they write are rows that the build found, and no changes."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from jobs.run.views import view_keeper
from jobs.run.views.row_changes import Change
from jobs.run.views.view_keeper import ViewKeeper
from jobs.state.batch.stream_offsets import Progress
from jobs.state.views.missed_changes import makes_up


@pytest.mark.parametrize(
    ("waiting", "is_left"), [(None, False), (0, True), (1, True), (2, False), (900, False)]
)
def test_keys_of_all_rows_are_dirty_since_before_all_batches(
    waiting: int | None, is_left: bool
) -> None:
    assert makes_up(waiting) == is_left


def test_rows_are_filled_until_no_key_of_all_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a restart of apply makes dirty anew (1) is one of them, too."""
    is_filling, logged = True, list[str]()

    def append(_conn: Any, _feed: Any, changes: list[Any], _progress: Progress) -> None:
        if not is_filling:
            logged.extend(one.key[0] for one in changes)

    def end(*_: Any) -> None:
        nonlocal is_filling
        is_filling = False

    monkeypatch.setattr(view_keeper, "append_changes", append)
    monkeypatch.setattr(view_keeper, "end_filling", end)
    for name in ("settle", "park", "unpark", "any_parked"):
        monkeypatch.setattr(view_keeper, name, lambda *_: None)
    for name in ("dirty_rows_sql", "many_rows_sql", "all_rows_sql"):
        monkeypatch.setattr(view_keeper, name, lambda *_: "")
    feed = cast(Any, MagicMock(shown=()))
    keeper = ViewKeeper(MagicMock(), MagicMock(shown=()), 10, 10, feed=feed)
    for key, waiting in (("a", 0), ("b", 1), ("c", None), ("d", None), ("e", 7)):
        monkeypatch.setattr(view_keeper, "waits_since", lambda *_, found=waiting: found)
        change = Change(key=(key,), digest="x", shown=(), told=("{}", "{}"))
        keeper._settle(MagicMock(), [], Progress(7, 1, 2, None), [change], {})
    assert logged == ["d", "e"]
