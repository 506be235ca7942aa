"""What each server can refuse, and the one line that says so."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import opensearchpy
import pytest
import redis
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import Delta, OpenSearch, Redis
from cdc.errors import RetryableError, SinkError, ViewError
from jobs.sinks.contract import Sink
from jobs.sinks.delta.generations import DeltaGenerations
from jobs.sinks.delta.ownership import refuse_taken
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, delete, upsert
from tests.support.servers.proxy import proxied
from tests.support.servers.stores import LSN, OpenFeed, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = StructType().add("id", LongType()).add("name", StringType())
SECRET = "hunter2"


@pytest.fixture
def redis_client(redis_server: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server) as client:
        yield client


@pytest.fixture
def cache(spark: SparkSession, redis_server: str, source_name: str) -> Iterator[Feed]:
    """A view in Redis whose writes are tried again for a second."""
    sink = open_sink(Redis(kind="redis", url=redis_server), source_name, spark, retry_s=1)
    sink.prepare(COLUMNS, ("id",))
    yield Feed(spark, sink, COLUMNS, source_name)
    sink.close()


def test_redis_without_memory_is_an_error(cache: Feed, redis_client: redis.Redis) -> None:
    redis_client.config_set("maxmemory", "1")
    try:
        with pytest.raises(SinkError, match=r"accepts no writes: OOM\. Raise maxmemory"):
            cache.apply(upsert(8, id=1, name="a"))
    finally:
        redis_client.config_set("maxmemory", "0")
    cache.replay(1, upsert(8, id=1, name="a"))
    assert cache.values("name") == {1: "a"}


@pytest.mark.parametrize(
    ("serves_stale", "said"),
    [
        ("yes", "READONLY. Point the store's url at the primary"),
        ("no", "MASTERDOWN. Find out why the replica lost its primary"),
    ],
)
def test_a_replica_of_redis_is_waited_for_and_then_an_error(
    cache: Feed, redis_client: redis.Redis, serves_stale: str, said: str
) -> None:
    redis_client.config_set("replica-serve-stale-data", serves_stale)
    redis_client.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(SinkError, match=said):
            cache.apply(upsert(8, id=1, name="a"))
    finally:
        redis_client.replicaof("NO", "ONE")
        redis_client.config_set("replica-serve-stale-data", "yes")
    cache.replay(1, upsert(8, id=1, name="a"))
    assert cache.values("name") == {1: "a"}


def test_a_script_that_redis_forgot_is_sent_again(cache: Feed, redis_client: redis.Redis) -> None:
    cache.apply(upsert(8, id=1, name="a"))
    redis_client.script_flush()
    cache.apply(upsert(9, id=1, name="b"))
    assert cache.values("name") == {1: "b"}


def test_a_foreign_key_in_redis_is_an_error(cache: Feed, redis_client: redis.Redis) -> None:
    redis_client.set(f"{cache.view}@1:1", "mine")
    with pytest.raises(SinkError, match="held by something else"):
        cache.apply(upsert(8, id=1, name="a"))


def test_a_redis_that_was_emptied_is_an_error_and_not_filled_from_the_middle(
    cache: Feed, redis_client: redis.Redis
) -> None:
    cache.apply(upsert(8, id=1, name="a"))
    redis_client.delete(*redis_client.scan_iter(f"*{cache.view}*"))
    with pytest.raises(SinkError, match=r"lost its rows: .* is gone\. Run `headwater view rebuild"):
        cache.apply(upsert(9, id=2, name="b"))
    assert cache.sink.prepare(COLUMNS, ("id",)), "what begins next is not told"


def test_tombstones_in_redis_expire_and_rows_do_not(cache: Feed, redis_client: redis.Redis) -> None:
    cache.apply(upsert(8, id=1, name="a"), upsert(8, 2, id=2, name="b"))
    cache.apply(delete(9, id=1), delete(9, 2, id=2))
    assert 86_000 < int(redis_client.ttl(f"{cache.view}@1:1")) <= 86_400
    cache.apply(upsert(10, id=1, name="back"))
    assert redis_client.ttl(f"{cache.view}@1:1") == -1


@pytest.mark.parametrize("user", ["", "someone"])
def test_a_wrong_redis_password_is_an_error_that_hides_it(
    redis_server: str, redis_client: redis.Redis, user: str
) -> None:
    url = redis_server.replace("redis://", f"redis://{user}:{SECRET}@")
    redis_client.config_set("requirepass", "another")
    try:
        sink = open_sink(Redis(kind="redis", url=url), "v", None, retry_s=30)
        with pytest.raises(SinkError, match="refused the login") as refused:
            sink.prepare(COLUMNS, ("id",))
    finally:
        redis_client.config_set("requirepass", "")
    assert SECRET not in str(refused.value)


def test_a_redis_url_that_is_none_is_an_error() -> None:
    sink = open_sink(Redis(kind="redis", url="redis://localhost?socket_timeout=soon"), "v", None)
    with pytest.raises(SinkError, match="not a Redis URL"):
        sink.prepare(COLUMNS, ("id",))


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


def test_a_slow_store_is_waited_for_however_long_it_takes(
    served: Store, open_feed: OpenFeed
) -> None:
    """How long a store may be away says nothing of how long it may take."""
    field = "dsn" if served.kind == "postgres" else "url"
    with proxied(getattr(served, field)) as (url, proxy):
        feed = open_feed(served.model_copy(update={field: url}), retry_s=0.2)
        proxy.slow(0.2)
        began = time.monotonic()
        feed.apply(upsert(LSN, id=1, name="a"), upsert(LSN, 2, id=2, name="b"))
        assert time.monotonic() - began > 0.4
        proxy.release()
        assert feed.values("name") == {1: "a", 2: "b"}


def test_a_folder_that_is_not_a_delta_table_is_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "notes.txt").write_text("mine")
    _taken(spark, Delta(kind="delta", path=str(tmp_path)), "holds something else")
    assert [one.name for one in (tmp_path / "v").iterdir()] == ["notes.txt"]


def test_a_table_whose_deletion_was_killed_is_dropped_by_the_next_try(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files go in any order, the log perhaps first: what is left is no table then."""
    lake = Delta(kind="delta", path=str(tmp_path))
    with closing(open_sink(lake, "v", spark)) as sink:
        sink.prepare(COLUMNS, ("id",))
        Feed(spark, sink, COLUMNS, "v").apply(upsert(8, id=1, name="a"))

    def killed(_: DeltaGenerations, path: str) -> None:
        if Path(path).exists():
            shutil.rmtree(Path(path) / "_delta_log")
            raise InterruptedError

    generations = open_generations(lake, "v", spark)
    with monkeypatch.context() as patched:
        patched.setattr(DeltaGenerations, "_delete", killed)
        with pytest.raises(InterruptedError):
            generations.drop(1)
    assert list(tmp_path.rglob("*.parquet")), "some of it is there"
    generations.drop(1)
    assert list(tmp_path.iterdir()) == []


def _taken(spark: SparkSession, lake: Delta, said: str) -> None:
    """Whatever would write there raises it."""
    generations = open_generations(lake, "v", spark)
    for attempt in (
        lambda: open_sink(lake, "v", spark).prepare(COLUMNS, ("id",)),
        generations.live,
        lambda: generations.switch(2),
        lambda: generations.drop(1),
        lambda: refuse_taken(lake, "v"),
    ):
        with pytest.raises(ViewError, match=said):
            attempt()


def test_a_key_that_is_not_the_views_is_left_alone(
    redis_server: str, redis_client: redis.Redis, source_name: str
) -> None:
    redis_client.set(f"{source_name}@live", "mine")
    generations = open_generations(Redis(kind="redis", url=redis_server), source_name, None)
    with pytest.raises(ViewError, match=f"{source_name}@live in Redis does not belong"):
        generations.live()
    redis_client.delete(f"{source_name}@live")
    generations.close()


def test_a_delta_path_that_is_a_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("mine")
    sink = open_sink(Delta(kind="delta", path=str(tmp_path / "lake")), "v", spark)
    with pytest.raises(SinkError, match=r"Delta table .*/lake/v: "):
        sink.prepare(COLUMNS, ("id",))


def test_a_foreign_delta_table_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "v"))
    _taken(spark, Delta(kind="delta", path=str(tmp_path)), "not belong to this view")
    assert spark.read.format("delta").load(str(tmp_path / "v")).count() == 3


def test_settings_of_a_merge_do_not_stay_in_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = open_sink(Delta(kind="delta", path=str(tmp_path)), "v", spark)
    sink.prepare(COLUMNS, ("id",))
    feed = Feed(spark, sink, COLUMNS, "v")
    feed.apply(upsert(8, id=1, name="a"))
    feed.apply(upsert(9, id=1, name="b"))
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", "none") == "none"
