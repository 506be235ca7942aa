"""When a snapshot last moved, as it is told to whoever waits for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cdc.source.postgres import Connection
from headwater.lag.snapshot_watch import progress
from snapshots import state, status

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CHUNK = BEGAN + timedelta(minutes=5)
TABLE = ("public.t", "shop.public.t", 3, 9, 3, 1, False, 0, 3, CHUNK, CHUNK)


class Source:
    """A source with one snapshot of one table."""

    def __init__(self, status: str) -> None:
        self._snapshot: tuple[Any, ...] = (7, "on_demand", status, {}, None, BEGAN, None, [], BEGAN)

    def execute(self, query: str, _: object = None) -> Source:
        self._rows = [self._snapshot if "snapshot_point" in query else TABLE]
        return self

    def fetchall(self) -> list[Any]:
        return self._rows


@pytest.mark.parametrize(
    ("kept", "running", "shown", "moved"),
    [
        ("running", [7], "running", CHUNK),
        ("running", [], "interrupted", CHUNK),
        ("failed", [], "failed", CHUNK),
        ("paused", [], "paused", None),
        ("complete", [], "complete", None),
    ],
)
def test_one_whose_process_has_ended_is_known_to_stand(
    kept: str,
    running: list[int],
    shown: str,
    moved: datetime | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "refuse_older_schema", lambda _: None)
    monkeypatch.setattr(state, "running_ids", lambda _: set(running))
    (found,) = status.snapshots(cast(Connection, Source(kept)), "shop")
    assert (found.status, found.moved_at) == (shown, moved)
    assert progress(found).moved_s == (moved.timestamp() if moved else None)
