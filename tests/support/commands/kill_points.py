"""A command that kills itself, with SIGKILL, before or behind a function of ours that it calls."""

from __future__ import annotations

import os
import signal
from functools import wraps
from importlib import import_module
from typing import Any, Final

_VARIABLE: Final = "HEADWATER_TESTS_KILL"


def killing(point: str) -> dict[str, str]:
    """For the environment of a command: ``before module:Class.function``, or ``after``."""
    return {_VARIABLE: point}


def kill_as_told() -> None:
    """In a command's process. A name that is no more is an error."""
    if (point := os.environ.pop(_VARIABLE, None)) is None:
        return
    when, _, place = point.partition(" ")
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner: Any = import_module(module)
    for one in owners:
        owner = getattr(owner, one)
    real = getattr(owner, name)

    @wraps(real)
    def run(*arguments: Any, **named: Any) -> Any:
        if when == "after":
            real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, run)
