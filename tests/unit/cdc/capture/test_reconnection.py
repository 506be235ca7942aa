"""Lost sessions: the pauses between, the patience with silence, and the end of it."""

from __future__ import annotations

import pytest

from cdc.capture.reconnection import SLOT_WAIT_S, Reconnect
from cdc.errors import RetryableError, SourceError
from cdc.source.replication import SilentServerError, SlotInUseError

LOST, SILENT, IN_USE = RetryableError("lost"), SilentServerError("silent"), SlotInUseError("used")


def test_pauses_grow_and_end_with_an_error_in_time() -> None:
    reconnect = Reconnect(60, 60)
    now, pauses = 100.0, []

    def lose() -> None:
        nonlocal now
        while True:
            pauses.append(reconnect.after(LOST, 0.1, False, now))
            now += pauses[-1] + 0.1

    with pytest.raises(SourceError, match="lost"):
        lose()
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 5
    assert 160 < now < 170


def test_a_session_that_confirmed_something_or_lasted_begins_anew() -> None:
    reconnect = Reconnect(60, 60)
    reconnect.after(LOST, 0.1, False, 100)
    assert reconnect.after(LOST, 0.1, True, 200) == 0.1
    assert reconnect.after(LOST, 61, False, 400) == 0.1


def test_silence_without_progress_doubles_the_patience() -> None:
    reconnect = Reconnect(60, 10)
    limits = []
    for now in (100.0, 110.0, 120.0):
        reconnect.after(SILENT, 10, False, now)
        limits.append(reconnect.silence_s)
    assert limits == [20, 40, 80]
    reconnect.after(LOST, 1, True, 130)
    assert reconnect.silence_s == 10


def test_a_slot_in_use_is_waited_for_and_then_refused() -> None:
    reconnect = Reconnect(60, 60)
    assert not reconnect.waits
    assert reconnect.after(IN_USE, 0, False, 100) < 0.5
    assert reconnect.waits
    with pytest.raises(SourceError, match="used"):
        reconnect.after(IN_USE, 0, False, 100.1 + SLOT_WAIT_S)
