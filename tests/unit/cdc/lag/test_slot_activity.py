"""What the server says of a slot, and how its clock is compared with ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.lag import slot_activity
from cdc.source.postgres import Connection


def test_a_query_that_takes_long_is_no_difference_between_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both clocks are the same here; the server reads its own halfway through three seconds."""
    now = [100.0]
    monkeypatch.setattr(slot_activity, "time", lambda: now[0])
    monkeypatch.setattr(slot_activity, "wal_volume", lambda *_: None)

    class Server:
        info = SimpleNamespace(server_version=170_000)

        def execute(self, *_: object) -> Server:
            now[0] += 1.5
            self._row = ("0/10", "1:1:", now[0], True, *[None] * 13, False, "/", 1)
            now[0] += 1.5
            return self

        def fetchone(self) -> tuple[Any, ...]:
            return self._row

    found = slot_activity.slot_activity(cast(Connection, Server()), "s")
    assert (found.clock_s, found.clock_ahead_s, found.sees_others) == (101.5, 0.0, False)
