"""How many views are loaded at once."""

from __future__ import annotations

import threading

import pytest

from cdc.errors import RetryableError
from jobs.run.builds import view_build
from jobs.run.builds.view_build import place_to_load


def test_a_view_waits_for_a_place_to_load_or_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_build, "_PLACES", threading.BoundedSemaphore(1))
    going, stopping = threading.Event(), threading.Event()
    began = threading.Event()

    def other() -> None:
        with place_to_load(going, "b"):
            began.set()

    with place_to_load(going, "a"):
        waiting = threading.Thread(target=other)
        waiting.start()
        assert not began.wait(0.05)
        stopping.set()
        with pytest.raises(RetryableError, match="view c: stopped"), place_to_load(stopping, "c"):
            raise AssertionError("there is no place")
    waiting.join(60)
    assert began.is_set()
    with pytest.raises(ZeroDivisionError), place_to_load(going, "d"):
        raise ZeroDivisionError
    with place_to_load(going, "e"):
        pass
