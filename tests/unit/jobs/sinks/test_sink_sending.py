"""How documents go to a server that is busy, or takes less than was sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson
import pytest

from cdc.errors import RetryableError, SinkError
from cdc.lsn import Position
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.client import BusyError, Client, TooLargeError
from jobs.sinks.opensearch.requests import SMALLEST_BYTES, Sending

_T = TypeVar("_T")
Answers = Callable[[list[str]], list[int] | SinkError | RetryableError]


class Wire:
    """Answers a bulk request by the ids in it: a status for each, or an error for all."""

    place, retry_s = "OpenSearch at x:1", 60.0

    def __init__(self, answers: Answers, kind: str) -> None:
        self._answers, self._kind, self.sent = answers, kind, list[list[str]]()

    def attempt(self, action: Callable[[Client], _T]) -> _T:
        return action(self)  # type: ignore[arg-type]

    def bulk(self, body: bytes, **_: Any) -> dict[str, Any]:
        ids = [orjson.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        self.sent.append(ids)
        answer = self._answers(ids)
        if isinstance(answer, Exception):
            raise answer
        items = [{"index": {"status": s, "error": {"type": self._kind}}} for s in answer]
        return {"errors": any(status >= 300 for status in answer), "items": items}


def sending(count: int, answers: Answers, size: int = 10, kind: str = "x") -> tuple[Sending, Wire]:
    wire = Wire(answers, kind)
    body = '{"t":"' + "x" * size + '"}'
    documents = [Document(str(i), body, Position(1, i), ()) for i in range(count)]
    return Sending(wire, "v-1.rows", "external", documents), wire  # type: ignore[arg-type]


def test_only_documents_that_were_not_taken_are_sent_again() -> None:
    busy = {"3", "5"}

    def answers(ids: list[str]) -> list[int]:
        found = [429 if one in busy else 201 for one in ids]
        busy.clear()
        return found

    one, wire = sending(8, answers)
    one.run()
    assert wire.sent == [[str(i) for i in range(8)], ["3", "5"]]


def test_requests_get_smaller_while_the_server_is_busy_and_grow_again() -> None:
    most = 40

    def answers(ids: list[str]) -> list[int] | BusyError:
        return BusyError("busy") if len(ids) > most else [201] * len(ids)

    one, wire = sending(400, answers, size=10_000)
    one.run()
    sizes = [len(ids) for ids in wire.sent]
    assert sizes[0] > most >= sizes[3]
    assert max(sizes[4:]) > sizes[3]
    assert {one for ids in wire.sent for one in ids} == {str(i) for i in range(400)}


def test_a_server_that_takes_nothing_is_given_up() -> None:
    one, wire = sending(2, lambda ids: [429] * len(ids))
    wire.retry_s = 0.5
    with pytest.raises(RetryableError, match="is busy"):
        one.run()
    assert len(wire.sent) > 1


def test_too_large_a_request_is_halved_down_to_the_document_that_is() -> None:
    def answers(ids: list[str]) -> list[int] | TooLargeError:
        return TooLargeError("413") if "2" in ids else [201] * len(ids)

    one, wire = sending(6, answers, size=SMALLEST_BYTES)
    one.run()
    assert [refusal.id for refusal in one.refused] == ["2"]
    assert {id_ for ids in wire.sent if "2" not in ids for id_ in ids} == {*"01345"}


def test_documents_that_are_refused_cost_no_other() -> None:
    one, wire = sending(4, lambda ids: [400 if id_ == "1" else 201 for id_ in ids])
    one.run()
    assert [(r.id, r.position, r.cause) for r in one.refused] == [
        ("1", Position(1, 1), "OpenSearch refused it: HTTP 400 x")
    ]
    assert len(wire.sent) == 1


def test_a_refusal_that_is_not_about_a_document_ends_the_batch() -> None:
    one, _ = sending(4, lambda ids: [404] * len(ids))
    with pytest.raises(SinkError, match=r"index v-1\.rows: .* HTTP 404 x\. Run `headwater view"):
        one.run()


def test_a_server_whose_disk_is_full_is_told_as_that_and_not_as_busy() -> None:
    one, wire = sending(2, lambda ids: [429] * len(ids), kind="cluster_block_exception")
    wire.retry_s = 0
    with pytest.raises(RetryableError, match=r"accepts no writes: its disk is full\. Free disk"):
        one.run()
