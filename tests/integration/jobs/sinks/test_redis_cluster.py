"""A view in a Redis cluster: rows in every hash slot, and a primary that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.crc import key_slot

from cdc.config import Redis, View
from cdc.errors import SinkError
from cdc.lsn import Position
from jobs.sinks.redis.client import Address, Keyspace
from jobs.sinks.stores import open_generations, open_sink
from stack import servers
from tests.support.events.batches import Feed, batch_rows, delete, upsert
from tests.support.servers.redis_cluster import SLOTS, Cluster, cluster_in
from tests.support.servers.stores import LSN, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def feed_of(spark: SparkSession, url: str, view: str, **declared: Any) -> Feed:
    wanted = View(store="cache", key=("id",), sql="select 1", **declared)
    config = Redis(kind="redis", url=url, cluster=True)
    sink = open_sink(config, view, spark, 120, None, wanted)
    sink.prepare(ITEMS, ("id",))
    return Feed(spark, sink, ITEMS, view)


@pytest.mark.parametrize(
    "declared",
    [{}, {"format": "json"}, {"format": "hash", "index_by": ("name",)}],
    ids=["documents", "json", "hashes"],
)
def test_rows_lie_in_every_slot_and_are_kept_as_in_one_server(
    spark: SparkSession, cluster: Cluster, source_name: str, declared: dict[str, Any]
) -> None:
    feed = feed_of(spark, cluster.url, source_name, **declared)
    feed.apply(*(upsert(LSN, i, id=i, name=f"n{i % 3}") for i in range(300)))
    feed.apply(*(upsert(LSN + 1, i, id=i, unchanged=("name",)) for i in range(50)))
    feed.apply(
        *(delete(LSN + 2, i, id=i) for i in range(100, 200)), upsert(LSN - 1, id=1, name="x")
    )
    feed.truncate(Position(LSN + 1, 25))
    rows = feed.rows()
    assert rows.keys() == {(i,) for i in range(25, 50)}
    assert {row.values["name"] for row in rows.values()} == {"n0", "n1", "n2"}
    feed.restart()
    feed.apply(*(upsert(LSN, i, id=i, name="late") for i in range(300)))
    assert feed.rows() == rows
    feed.sink.close()


def test_generations_are_switched_and_leave_nothing(
    spark: SparkSession, cluster: Cluster, source_name: str
) -> None:
    config = Redis(kind="redis", url=cluster.url, cluster=True)
    generations = open_generations(config, source_name, spark)
    for number in (1, 2):
        rows = batch_rows(spark, ITEMS, [upsert(LSN, 0, id=i, name="a") for i in range(200)])
        generations.load(number, rows, ITEMS, ("id",))
        generations.switch(number)
        generations.drop(number - 1)
    live = generations.live()
    assert live is not None
    assert live.number == 2
    generations.drop(2)
    left = [key for node in cluster.nodes[:3] for key in node.scan_iter(f"*{source_name}*")]
    assert left == []
    generations.close()


def test_a_node_that_is_taken_for_a_server_is_an_error(
    spark: SparkSession, cluster: Cluster, redis_server: str
) -> None:
    first = key_slot(b"v@live") * 3 // SLOTS  # the primary that has it
    sink = open_sink(Redis(kind="redis", url=cluster.urls[(first + 1) % 3]), "v", spark, 5)
    with pytest.raises(SinkError, match=r"is a node of a cluster\. Set cluster = true"):
        sink.prepare(ITEMS, ("id",))
    alone = open_sink(Redis(kind="redis", url=redis_server, cluster=True), "v", spark, 5)
    with pytest.raises(SinkError, match=r"is not a cluster\. Set cluster = false"):
        alone.prepare(ITEMS, ("id",))


def test_a_node_that_was_killed_between_two_pages_leaves_no_key_out(
    cluster: Cluster, source_name: str
) -> None:
    keys = {f"{source_name}@1:{number}".encode() for number in range(6_000)}
    keyspace = Keyspace(Address(cluster.url, True, 60))
    keyspace.each([("SET", key, b"") for key in keys])
    cluster.nodes[0].config_set("appendfsync", "always")  # all of them are in its file
    pages = keyspace.pages(f"{source_name}@1:*", 100)
    found = {key for _ in range(5) for key in next(pages)}
    assert len(found) < 1_000, "the first node has been read"
    servers.kill(cluster.homes[0], "redis")
    servers.start(cluster.homes[0], ["redis"])
    found.update(key for page in pages for key in page)
    keyspace.close()
    assert found == keys


def test_a_replica_that_is_promoted_is_written_to(
    spark: SparkSession, cluster: Cluster, source_name: str
) -> None:
    """Last: it leaves two primaries of the first three."""
    feed = feed_of(spark, cluster.url, source_name)
    feed.apply(*(upsert(LSN, i, id=i, name="before") for i in range(200)))
    cluster.kill_first()
    feed.apply(*(upsert(LSN + 1, i, id=i, name="after") for i in range(0, 200, 2)))
    names = feed.values("name")
    assert len(names) == 200
    assert {names[i] for i in range(0, 200, 2)} == {"after"}
    role = redis.Redis.from_url(cluster.urls[3]).info("replication")["role"]
    assert role == "master"
    feed.sink.close()
