"""When the offsets of a view without mirrors are committed to its group, without Kafka."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

from jobs.without_mirrors.group_offsets import AGAIN_S, GroupOffsets


def test_a_group_is_committed_with_each_batch_and_each_day() -> None:
    """Kafka forgets a group of which it hears nothing for a week."""
    now_s, told = [0.0], list[Any]()
    broker = cast("Any", SimpleNamespace(commit_group=lambda *given: told.append(given[1])))
    group = GroupOffsets("v", threading.Event(), lambda: now_s[0])
    for at_s, committed, expected in (
        (0.0, None, []),
        (1.0, (0, "a"), ["a"]),
        (2.0, (0, "a"), []),
        (3.0, (1, "b"), ["b"]),
        (AGAIN_S + 2.0, (1, "b"), []),
        (AGAIN_S + 3.0, (1, "b"), ["b"]),
        (AGAIN_S + 4.0, (1, "b"), []),
    ):
        now_s[0] = at_s
        told.clear()
        query = SimpleNamespace(committed=lambda at=committed: at, generation="", replayed_until={})
        group.commit(broker, cast("Any", query))
        assert told == expected, at_s
