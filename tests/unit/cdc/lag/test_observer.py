"""A thread that looks again and again."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from cdc.errors import RetryableError
from cdc.lag.observer import Observer
from tests.support.waiting import wait_until


@pytest.mark.parametrize("fault", [RetryableError("Kafka is away", "start it"), ValueError("odd")])
def test_a_look_that_fails_is_told_and_the_next_one_connects_again(fault: Exception) -> None:
    faults, closed = [fault, fault], list[str]()

    def look() -> str:
        if faults:
            raise faults.pop()
        return "found"

    observer = Observer(look, lambda: closed.append("closed"), every_s=0.01)
    with capture_logs() as lines:
        observer.start()
        wait_until(lambda: observer.seen is not None, "a look that succeeds")
        observer.end()
    assert observer.fresh is not None
    assert observer.fresh.found == "found"
    assert len(closed) >= 2
    assert [line["event"] for line in lines] == ["not_measured"]
    assert str(fault.args[0]) in lines[0]["reason"]
