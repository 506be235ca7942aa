"""Waiting for a condition, never for a time."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_FIRST_S, _LONGEST_S = 0.02, 0.1
"""Between two looks; whoever waits for long must not take the time of what it waits for."""
_SHARE, _MOST_S = 2.0, 0.5
"""Behind a look that takes long itself: so many times as long, and no longer than that."""


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = 120) -> T:
    """Ask until the answer is true, and give it. ``what`` names it when time is up.

    The deadline is for a machine with other work to do: it is no promise that is tested, so a
    shorter one gains nothing.

    An ``AssertionError`` of the condition means "not yet"; the last one is shown.
    """
    deadline = time.monotonic() + timeout_s
    pause, pause_s = threading.Event(), _FIRST_S
    last = ""
    while True:
        began = time.monotonic()
        try:
            answer = condition()
            if answer:
                return answer
            last = f"last answer: {answer!r}"
        except AssertionError as error:
            last = str(error)
        now = time.monotonic()
        if now > deadline:
            _show_threads()
            raise AssertionError(f"waited {timeout_s:.0f} s for: {what} ({last})")
        pause.wait(max(pause_s, min(_SHARE * (now - began), _MOST_S)))
        pause_s = min(1.2 * pause_s, _LONGEST_S)


def _show_threads() -> None:
    """Where each thread stands: one of them is what is waited for."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        print(f"--- thread {names.get(ident, ident)}", file=sys.stderr)
        print("".join(traceback.format_stack(frame, 12)), file=sys.stderr)
