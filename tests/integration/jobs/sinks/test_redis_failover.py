"""A Redis that is a replica from one moment on, behind the address that its primary had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from cdc.config import Redis
from jobs.sinks.stores import open_sink
from tests.support.events.batches import Feed, upsert
from tests.support.servers.proxy import proxied
from tests.support.servers.stores import LSN, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS = items()


def test_a_primary_that_became_a_replica_is_left_for_the_new_one(
    spark: SparkSession, redis_server: str, source_name: str
) -> None:
    """Behind one address, as a virtual one has it: connections to the old one have to go."""
    with proxied(redis_server) as (url, proxy), redis.Redis.from_url(redis_server) as client:
        sink = open_sink(Redis(kind="redis", url=url), source_name, spark, 60)
        sink.prepare(ITEMS, ("id",))
        feed = Feed(spark, sink, ITEMS, source_name)
        feed.apply(upsert(LSN, id=1, name="a"))
        accepted = proxy.accepted
        client.replicaof("127.0.0.1", "1")
        try:
            sink_url = Redis(kind="redis", url=url)
            short = open_sink(sink_url, f"{source_name}b", spark, 1)
            with pytest.raises(Exception, match="READONLY"):
                short.prepare(ITEMS, ("id",))
        finally:
            client.replicaof("NO", "ONE")
        assert proxy.accepted > accepted + 1, "it kept its connection"
        feed.apply(upsert(LSN + 1, id=1, name="b"))
        assert feed.values("name") == {1: "b"}
        sink.close()
