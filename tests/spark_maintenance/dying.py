"""Processes that end before or behind one of the writes of an attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from jobs.delta_engine import maintainer
from jobs.delta_engine.mirrors.attempts import write_attempts
from jobs.delta_engine.mirrors.mirror import Mirror
from jobs.delta_engine.touched_keys import TouchedKeys
from tests.support.views.recording_sink import RecordingSink


class KilledError(BaseException):
    """The process is gone."""


@contextmanager
def dying(random: Random, sink: RecordingSink, at_most: int = 6) -> Iterator[None]:
    """At one of the first writes; raises ``KilledError`` there."""
    left, behind = random.randint(1, at_most), random.random() < 0.5

    def fatal(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and not behind:
                raise KilledError
            answer = real(*args, **more)
            if left == 0:
                raise KilledError
            return answer

        return run

    with (
        patch.object(Mirror, "append", fatal(Mirror.append)),
        patch.object(TouchedKeys, "keep", fatal(TouchedKeys.keep)),
        patch.object(sink, "apply", fatal(sink.apply)),
        patch.object(maintainer, "write_attempts", fatal(write_attempts)),
    ):
        yield
