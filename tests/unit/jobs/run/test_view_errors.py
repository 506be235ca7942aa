"""What is written of faults: of what readers see, and of builds beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError, ViewError
from jobs.run.views import view_errors
from jobs.run.views.view_entry import ViewEntry
from jobs.run.views.view_errors import note_errors, of_builds
from jobs.state.server.connection import Connection

CONN = cast("Connection", None)
FAULT = ViewError("no column wort", "write word")
DOWN = RetryableError("the store is away", "it is tried again")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[object, str]:
    """What the state database has: by the number of a generation, and by the name of a view."""
    found: dict[object, str] = {}

    def note(_conn: Connection, of: object, error: str) -> None:
        found[of] = error

    monkeypatch.setattr(view_errors, "note_error", note)
    monkeypatch.setattr(view_errors, "note_unbuilt", note)
    return found


def entry(seen: int | None, build: HeadwaterError | None = None, **other: Any) -> ViewEntry:
    one = ViewEntry("v", cast("View", None), seen=seen, **other)
    if build is not None:
        one.build = cast("Any", SimpleNamespace(error=build))
    return one


def test_a_build_that_was_refused_leaves_what_is_live_without_fault(
    written: dict[object, str],
) -> None:
    one = entry(1, FAULT)
    note_errors(CONN, [one], {})
    assert written == {1: "", "v": str(FAULT)}
    one.build, one.refused = None, FAULT  # the command has ended
    note_errors(CONN, [one], {})
    assert written == {1: "", "v": str(FAULT)}
    one.refused = None  # it is built again
    note_errors(CONN, [one], {})
    assert written == {1: "", "v": ""}


def test_a_fault_of_what_is_live_is_its_own(written: dict[object, str]) -> None:
    one = entry(1)
    note_errors(CONN, [one], {"v": FAULT})
    assert written == {1: str(FAULT), "v": ""}
    note_errors(CONN, [one], {"v": DOWN})
    assert written == {1: "", "v": ""}, "what passes is not written"


def test_a_view_that_readers_see_nothing_of_cannot_be_built(written: dict[object, str]) -> None:
    note_errors(CONN, [entry(None, FAULT)], {})
    assert written == {"v": str(FAULT)}
    note_errors(CONN, [entry(None)], {"v": FAULT})
    assert written == {"v": str(FAULT)}


def test_what_another_process_left_is_written_over_once(written: dict[object, str]) -> None:
    one = entry(1)
    note_errors(CONN, [one], {})
    assert written == {1: "", "v": ""}
    written.clear()
    note_errors(CONN, [one], {})
    assert written == {}


def test_of_builds_the_one_under_way_counts() -> None:
    assert of_builds([entry(1, DOWN, refused=FAULT)]) == {"v": DOWN}
    assert of_builds([entry(1)]) == {}
