"""What a process says over HTTP of its metrics and of itself, and the lag that is true."""

from __future__ import annotations

import time
from contextlib import closing
from http.client import HTTPConnection
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.support.waiting import wait_until

SLACK_S: Final = 2.5
"""One second is promised. A machine that is busy looks less often."""


def get(port: int, path: str) -> tuple[int, str]:
    """The status and what was answered."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """Values by the metric's name and the values of its labels, these in order of name."""
    status, text = get(port, "/metrics")
    assert status == 200, text
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


class Age:
    """The age of what is committed from now on, and before ``ends``."""

    def __init__(self) -> None:
        self._began = self._ended = time.time()

    def ends(self) -> None:
        self._ended = time.time()

    def agrees(self, lag_s: float) -> bool:
        """With a lag that was told a moment ago."""
        now = time.time()
        return now - self._ended - SLACK_S <= lag_s <= now - self._began + SLACK_S


def probe(port: int, page: str) -> tuple[int, str]:
    """What ``livez`` or ``readyz`` answers as soon as somebody listens."""

    def answer() -> tuple[int, str]:
        try:
            return get(port, f"/{page}")
        except ConnectionRefusedError as error:
            raise AssertionError("nothing listens yet") from error

    return wait_until(answer, "probes to be served")
