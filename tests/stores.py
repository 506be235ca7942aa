"""The stores that views are kept in, each on its real server, and feeds of changes into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.config import Delta, OpenSearch, Redis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from jobs.sinks import Sink
    from tests.batches import Feed

KINDS = ("delta", "opensearch", "redis")
SERVED = ("opensearch", "redis")
LSN = 0x16_B374_D848

Store = Delta | OpenSearch | Redis
OpenFeed = Callable[..., "Feed"]


def items() -> StructType:
    """The columns of a view where they do not matter."""
    from pyspark.sql.types import LongType, StringType, StructType

    return StructType().add("id", LongType()).add("name", StringType())


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return _store(request.param, request, tmp_path)


@pytest.fixture(params=SERVED)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that is a server, so that it can be down."""
    return _store(request.param, request, tmp_path)


def _store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if kind == "opensearch":
        return OpenSearch(kind="opensearch", url=request.getfixturevalue("opensearch"))
    if kind == "redis":
        return Redis(kind="redis", url=request.getfixturevalue("redis_server"))
    return Delta(kind="delta", path=str(tmp_path))


@pytest.fixture
def open_feed(spark: SparkSession, source_name: str) -> Iterator[OpenFeed]:
    """Opens the test's view in a store, as a process that starts does."""
    from jobs.sinks import open_sink
    from tests.batches import Feed

    opened: list[Sink] = []

    def open_it(
        store: Store,
        columns: StructType | None = None,
        key: tuple[str, ...] = ("id",),
        retry_s: float = 300.0,
    ) -> Feed:
        sink = open_sink(store, source_name, spark, retry_s)
        opened.append(sink)
        columns = columns or items()
        sink.prepare(columns, key)
        return Feed(spark, sink, columns, source_name)

    yield open_it
    for sink in opened:
        sink.close()


@pytest.fixture
def feed(store: Store, open_feed: OpenFeed) -> Feed:
    return open_feed(store)
