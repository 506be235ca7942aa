"""What OpenSearch can refuse, and the one line that says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import opensearchpy
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import OpenSearch
from cdc.errors import RetryableError, SinkError, ViewError
from jobs.sinks.contract import Sink
from jobs.sinks.stores import open_sink
from tests.support.events.batches import Feed, delete, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = StructType().add("id", LongType()).add("name", StringType())
SECRET = "hunter2"


@pytest.fixture
def search(spark: SparkSession, opensearch: str, source_name: str) -> Iterator[Feed]:
    sink = open_sink(OpenSearch(kind="opensearch", url=opensearch), source_name, spark, retry_s=1)
    sink.prepare(COLUMNS, ("id",))
    yield Feed(spark, sink, COLUMNS, source_name)
    sink.close()


@pytest.fixture
def client(opensearch: str) -> Iterator[opensearchpy.OpenSearch]:
    with opensearchpy.OpenSearch([opensearch]) as client:
        yield client


def test_an_index_with_other_types_names_the_field(
    search: Feed, client: opensearchpy.OpenSearch
) -> None:
    index = f"{search.view}-1"
    client.indices.delete(index=index)
    mapping = {"properties": {"name": {"type": "long"}}}
    client.indices.create(index=index, body={"mappings": mapping, "aliases": {f"{index}.rows": {}}})
    with pytest.raises(SinkError, match=r"refused 1 row.*400 mapper_parsing_.* name") as refused:
        search.apply(upsert(8, id=1, name=SECRET), upsert(8, 2, id=2))
    assert SECRET not in str(refused.value)
    with pytest.raises(ViewError, match=f"an index {index} of somebody else"):
        search.sink.prepare(COLUMNS, ("id",))


def test_an_index_that_was_removed_does_not_come_back_with_guessed_types(
    search: Feed, client: opensearchpy.OpenSearch
) -> None:
    client.indices.delete(index=f"{search.view}-1")
    with pytest.raises(SinkError, match=r"refused: HTTP 404.*Run `headwater view rebuild`"):
        search.apply(upsert(8, id=1, name="a"))
    assert not client.indices.exists(index=search.view)


def test_an_index_that_is_locked_as_the_disk_is_full_is_written_when_there_is_room(
    search: Feed, client: opensearchpy.OpenSearch
) -> None:
    """The lock that OpenSearch sets by itself where a disk is nearly full."""
    index, lock = f"{search.view}-1", "index.blocks.read_only_allow_delete"
    client.indices.put_settings(index=index, body={lock: True})
    with pytest.raises(RetryableError, match=r"accepts no writes: its disk is full\. Free disk"):
        search.apply(upsert(8, id=1, name="a"))
    client.indices.put_settings(index=index, body={lock: None})
    search.replay(1, upsert(8, id=1, name="a"))
    assert search.values("name") == {1: "a"}


def test_a_foreign_index_with_the_views_name_is_left_alone(
    opensearch: str, source_name: str, client: opensearchpy.OpenSearch
) -> None:
    client.indices.create(index=source_name)
    sink = open_sink(OpenSearch(kind="opensearch", url=opensearch), source_name, None)
    with pytest.raises(ViewError, match=f"an index {source_name} of somebody else"):
        sink.prepare(COLUMNS, ("id",))


def test_a_deleted_row_is_not_found_by_a_search(
    search: Feed, client: opensearchpy.OpenSearch
) -> None:
    search.apply(upsert(8, id=1, name="a"), upsert(8, 2, id=2, name="b"))
    search.apply(delete(9, id=1))
    assert client.count(index=search.view)["count"] == 1
    found = client.search(index=search.view, body={"query": {"match": {"name.text": "B"}}})
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["2"]


class _Refusing(BaseHTTPRequestHandler):
    """Answers everything with the server's status."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_HEAD = _answer  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def _refusing(status: int) -> Iterator[Sink]:
    """A sink at a server that refuses everything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    server.status = status  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    config = OpenSearch(kind="opensearch", url=url, user="someone", password=SECRET)
    try:
        yield open_sink(config, "v", None, retry_s=0.5)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_opensearch_password_is_an_error_at_once(status: int) -> None:
    expected = rf"refused the login or lacks a privilege \(HTTP {status}\). Check user"
    with _refusing(status) as sink, pytest.raises(SinkError, match=expected) as refused:
        sink.prepare(COLUMNS, ("id",))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_opensearch_is_tried_again_and_then_named(status: int) -> None:
    expected = rf"is busy \(HTTP {status}\)"
    with _refusing(status) as sink, pytest.raises(RetryableError, match=expected):
        sink.prepare(COLUMNS, ("id",))
