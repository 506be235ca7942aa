"""Documents to OpenSearch in requests that it can take.

A busy server says 429, to a whole request or to some of its documents. Those alone are sent again,
after a pause that grows and is not the same for all who wait, in requests half as large; as it
takes them the requests grow again. Too large a request (413) is halved too. Whoever makes no
progress for ``retry_s`` gives up.

Not ``opensearchpy.helpers.streaming_bulk``: it makes no request smaller, counts tries instead of
time, and needs an answer for each document, where here only those that failed are answered. For
50,000 documents of 250 bytes it takes 0.45 s of CPU, this 0.07 s.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cdc.errors import RetryableError, SinkError
from jobs.sinks.batch_writer import until
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.bulk import BODY_BYTES, Request, read_answer, refusals, request
from jobs.sinks.opensearch.client import BusyError, Client, Server, TooLargeError
from jobs.sinks.row_errors import Refused

SMALLEST_BYTES: Final = 16 << 10
"""A request is not made smaller than that: it is not its size then."""
_ITEMS: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason"
_REMOVED: Final = "run `headwater view rebuild`, which fills it again from a snapshot"
_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


@dataclass(slots=True)
class Sending:
    """Documents on their way to one index."""

    server: Server
    alias: str
    version_type: str
    left: Sequence[Document]
    ties: list[Document] = field(default_factory=list)
    """Their version is the stored one: the ordinal decides."""
    refused: list[Refused] = field(default_factory=list)
    limit: int = BODY_BYTES
    _busy: int = 0

    def run(self) -> None:
        """Send all of them. Raises ``RetryableError`` when the server takes nothing for too long,
        ``SinkError`` for what is not about single documents."""
        while self.left:
            until(self.server.retry_s, self._round)

    def _round(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        one = request(self.left, self.version_type, now_ms, self.limit)
        try:
            response = self.server.attempt(partial(self._bulk, one))
        except BusyError:
            self._smaller(len(one.body))
            raise
        except TooLargeError as error:
            if len(one.documents) == 1:
                self.refused += refusals(one.documents, 413, "too large for the server")
                self.left = self.left[1:]
                return
            self._smaller(len(one.body), 1)
            raise RetryableError(error.message, error.hint) from error
        self._take(one, response)

    def _bulk(self, one: Request, client: Client) -> Any:
        # require_alias: an index that was removed must not come back with guessed types
        return client.bulk(
            body=one.body,
            index=self.alias,
            params={"require_alias": "true", "filter_path": _ITEMS},
        )

    def _take(self, one: Request, response: dict[str, Any]) -> None:
        answer = read_answer(one, response)
        if answer.fault:
            gone = answer.fault.startswith("HTTP 404")
            raise SinkError(
                f"index {self.alias}: {self.server.place} refused: {answer.fault}",
                _REMOVED if gone else "",
            )
        self.ties += answer.ties
        self.refused += answer.refused
        self.left = [*answer.busy, *self.left[len(one.documents) :]]
        if not answer.busy:
            self._busy = 0
            self.limit = min(2 * self.limit, BODY_BYTES)
            return
        self._smaller(len(one.body))
        if answer.full:
            raise RetryableError(
                f"{self.server.place} accepts no writes: its disk is full",
                "free disk space: OpenSearch then unlocks the index by itself",
            )
        if len(answer.busy) == len(one.documents):
            raise RetryableError(f"{self.server.place} is busy: {answer.why}")
        self._busy += 1
        longest = min(_PAUSE_S * 2**self._busy, _LONGEST_PAUSE_S)
        time.sleep(random.uniform(0, longest))

    def _smaller(self, size: int, smallest: int = SMALLEST_BYTES) -> None:
        self.limit = max(min(self.limit, size) // 2, smallest)
