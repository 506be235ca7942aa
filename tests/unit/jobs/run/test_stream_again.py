"""A stream that Kafka's absence has ended is started again, however long that takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.errors import HeadwaterError, RetryableError
from cdc.kafka.broker import Offsets
from jobs.run import engine
from jobs.run.engine import Engine

AWAY = RetryableError("Kafka does not answer", "start it")


class Interrupted:
    """A stream that has ended, and may be started."""

    def __init__(self) -> None:
        self.fault: HeadwaterError | None = AWAY
        self.starts = 0

    def error(self) -> HeadwaterError | None:
        return self.fault

    def start(self, _: Offsets) -> None:
        self.fault = None
        self.starts += 1

    def stop(self) -> None:
        """It has ended."""

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def changing() -> Iterator[Any]:
    yield None


@pytest.mark.parametrize("step", ["leave_recreated", "stream_offsets"])
def test_a_stream_begins_again_when_kafka_or_the_state_is_back(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    away = [AWAY, AWAY, AWAY]

    def answers(name: str, answer: Any) -> None:
        def asked(*_: object) -> Any:
            if name == step and away:
                raise away.pop()
            return answer

        monkeypatch.setattr(engine, name, asked)

    answers("leave_recreated", False)
    answers("stream_offsets", {"t": {0: 1}})
    answers("leave_all_but", None)
    answers("read_progress", SimpleNamespace(batch=1))
    stream: Any = Interrupted()
    kept: Any = Engine.__new__(Engine)
    kept._stream, kept._streams, kept._spare, kept._conn = stream, True, False, None
    kept._joined, kept.changing, kept._tables = threading.Event(), changing, None
    kept._generations = SimpleNamespace(views=list, wake=lambda: None)
    kept._reach = SimpleNamespace(batch=lambda *_: None)
    for _ in range(3):
        with pytest.raises(RetryableError):
            kept._keep_stream()
        assert not kept._streams, "readiness tells that the stream does not run"
    kept._keep_stream()
    assert (stream.starts, kept._streams) == (1, True)
    kept._keep_stream()
    assert stream.starts == 1
