"""What Redis can refuse, and the one line that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import redis
from pyspark.sql.types import LongType, StringType, StructType

from cdc.config import Redis
from cdc.errors import SinkError, ViewError
from jobs.sinks.stores import open_generations, open_sink
from tests.support.events.batches import Feed, delete, upsert

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


def test_a_key_that_is_not_the_views_is_left_alone(
    redis_server: str, redis_client: redis.Redis, source_name: str
) -> None:
    redis_client.set(f"{source_name}@live", "mine")
    generations = open_generations(Redis(kind="redis", url=redis_server), source_name, None)
    with pytest.raises(ViewError, match=f"{source_name}@live in Redis does not belong"):
        generations.live()
    redis_client.delete(f"{source_name}@live")
    generations.close()
