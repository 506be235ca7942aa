"""Waiting for a condition, never for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.02


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = 120) -> T:
    """Ask until the answer is true, and give it. ``what`` names it when time is up.

    An ``AssertionError`` of the condition means "not yet"; the last one is shown.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    last = ""
    while True:
        try:
            answer = condition()
            if answer:
                return answer
            last = f"last answer: {answer!r}"
        except AssertionError as error:
            last = str(error)
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s for: {what} ({last})")
        pause.wait(_POLL_S)
