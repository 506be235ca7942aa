"""An OpenSearch that answers and cannot say: shards that are not there yet, answers that were lost.

What it leaves out of an answer is never taken for what it does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import opensearchpy
import pytest

from cdc.errors import RetryableError, SinkError, ViewError
from cdc.lsn import Position
from jobs.sinks.documents import Document
from jobs.sinks.opensearch.client import Client, Server
from jobs.sinks.opensearch.indexes import alias_of, create, index_of, owned
from jobs.sinks.opensearch.mapping import index_body
from jobs.sinks.opensearch.search import pages
from jobs.sinks.opensearch.writer import OpenSearchWriter
from tests.support.servers.stores import LSN, items
from tests.support.waiting import wait_until

_SHARDS = "index.routing.allocation.total_shards_per_node"


@pytest.fixture
def client(opensearch: str) -> Iterator[opensearchpy.OpenSearch]:
    with opensearchpy.OpenSearch([opensearch]) as client:
        yield client


@pytest.fixture
def server(opensearch: str) -> Server:
    return Server(opensearch, "", "", True, 0.2)


def body_of(view: str, **settings: Any) -> dict[str, Any]:
    index = index_of(view, 1)
    body = index_body(view, items(), ("id",), (alias_of(index),), None)
    body["settings"] |= settings
    return body


def document(number: int, unchanged: tuple[str, ...] = ()) -> Document:
    return Document(str(number), f'{{"id":{number}}}', Position(LSN, number), unchanged)


def test_documents_of_a_shard_that_is_not_there_are_not_missing(
    server: Server, client: opensearchpy.OpenSearch, source_name: str
) -> None:
    """As after a restart, until a node has opened its shards: one of two is there."""
    index = index_of(source_name, 1)
    alias = alias_of(index)
    body = body_of(source_name, number_of_shards=2, **{_SHARDS: 1})
    client.indices.create(index=index, body=body, params={"wait_for_active_shards": "0"})
    ids = {"ids": [str(i) for i in range(20)]}

    def lacking() -> int:
        return sum("error" in item for item in client.mget(index=alias, body=ids)["docs"])

    wait_until(lambda: 0 < lacking() < 20, "one shard of two")
    writer = OpenSearchWriter(server, source_name, alias)
    for unsure in (
        lambda: writer([document(i, ("name",)) for i in range(20)]),  # to be filled from the store
        lambda: writer._later([document(i) for i in range(20)]),
        lambda: list(pages(server, alias, {})),
    ):
        with pytest.raises(RetryableError, match=r"OpenSearch at .* is busy \(HTTP 503\)"):
            unsure()
    client.indices.put_settings(index=index, body={_SHARDS: -1})
    wait_until(lambda: client.cluster.health(index=index)["status"] != "red", "its shards")
    writer([document(i) for i in range(20)])
    client.indices.refresh(index=alias)
    assert sum(len(hits) for hits in pages(server, alias, {})) == 20


def test_a_page_that_does_not_come_is_not_the_last_one(
    server: Server, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it asked for again: what was given out once does not come again."""
    index = index_of(source_name, 1)
    create(server, source_name, index, body_of(source_name))
    OpenSearchWriter(server, source_name, alias_of(index))([document(i) for i in range(3)])
    server.call(lambda client: client.indices.refresh(index=index))
    plain, lost = opensearchpy.OpenSearch.scroll, list[Any]()

    def scroll(*arguments: Any, **named: Any) -> Any:
        lost.append(plain(*arguments, **named))
        raise opensearchpy.ConnectionTimeout("TIMEOUT", "read timed out", None)

    monkeypatch.setattr(opensearchpy.OpenSearch, "scroll", scroll)
    monkeypatch.setattr("jobs.sinks.opensearch.search.SCAN_DOCUMENTS", 1)
    with pytest.raises(
        RetryableError, match=r"does not answer .* Wait: the batch or command repeats"
    ):
        list(pages(server, alias_of(index), {}))
    assert len(lost) == 1


def test_a_right_that_lacks_is_not_waited_for(
    server: Server, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(source_name, 1)
    create(server, source_name, index, body_of(source_name))
    OpenSearchWriter(server, source_name, alias_of(index))([document(1)])
    server.call(lambda client: client.indices.refresh(index=index))

    def scroll(*_: Any, **__: Any) -> Any:
        raise opensearchpy.AuthorizationException(403, "security_exception", {})

    monkeypatch.setattr(opensearchpy.OpenSearch, "scroll", scroll)
    with pytest.raises(SinkError, match="refused the login or lacks a privilege"):
        list(pages(server, alias_of(index), {}))


def test_an_index_whose_answer_was_lost_is_ours(
    server: Server, client: opensearchpy.OpenSearch, source_name: str
) -> None:
    index = index_of(source_name, 1)
    for _ in range(2):
        create(server, source_name, index, body_of(source_name))
    assert owned(client, source_name, index) == [index]
    other = f"{source_name}-1"
    with pytest.raises(ViewError, match=f"is already used by index {index} of view {source_name}"):
        create(server, other, index, body_of(other))


def test_an_index_that_a_starting_node_does_not_know_yet_is_waited_for(
    opensearch: str, source_name: str
) -> None:
    """It answers 404 to a refresh before it has read which indexes it has."""
    server, index, asked = Server(opensearch, "", "", True, 60), f"{source_name}-1", list[str]()

    def refresh(client: Client) -> Any:
        asked.append("refresh")
        name = "not-read-yet" if len(asked) < 3 else index
        return client.indices.refresh(index=name)

    gone = r"HTTP 404\): index_not_found_exception"
    with pytest.raises(SinkError, match=gone):  # it is not there
        server.call_on(index, refresh)
    assert asked == ["refresh"]
    create(server, source_name, index, body_of(source_name))
    server.call_on(index, partial(refresh))
    assert len(asked) == 3
