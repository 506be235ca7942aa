"""What is tried again until it works, and what the log tells of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog

from cdc.errors import RetryableError
from jobs.sinks import batch_writer as writing
from jobs.sinks.batch_writer import until


def test_who_waits_long_for_a_store_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_QUIET_S", 0.0)
    with structlog.testing.capture_logs() as said:
        assert until(30, attempts(4)) == "done"
    (line,) = said
    assert (line["event"], line["cause"]) == ("store_waited_for", "Redis at h:1 does not answer")


def test_what_passes_at_once_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_QUIET_S", 3600.0)
    with structlog.testing.capture_logs() as said:
        assert until(30, attempts(2)) == "done"
    assert said == []


def test_answers_of_a_command_without_a_log_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(writing, "_QUIET_S", 0.0)
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    assert until(30, attempts(3)) == "done"
    assert capsys.readouterr() == ("", "")


def test_what_does_not_pass_is_raised() -> None:
    with pytest.raises(RetryableError, match="does not answer"):
        until(0.1, attempts(10_000))


def test_the_first_try_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, tries = [100.0], [0]
    monkeypatch.setattr("jobs.sinks.batch_writer.time.monotonic", lambda: now[0])

    def slow() -> None:
        now[0] += 40
        tries[0] += 1
        raise RetryableError("Redis at h:1 does not answer")

    with pytest.raises(RetryableError):
        until(30, slow)
    assert tries == [1]


def attempts(failures: int) -> Callable[[], str]:
    left = [RetryableError("Redis at h:1 does not answer")] * failures

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    return attempt
