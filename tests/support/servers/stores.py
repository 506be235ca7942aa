"""The stores that views are kept in, each on its real server, and feeds of changes into them.

A store of another kind is one more entry of ``KINDS``: every test that takes ``store``, ``feed`` or
``setting`` then runs for it too (``tests/integration/jobs/sinks/test_sinks.py``,
``test_sink_values.py``, ``test_generations.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opensearchpy
import psycopg
import pytest
import redis
from psycopg import sql

from cdc.config import Delta, OpenSearch, Postgres, Redis
from cdc.config import Store as Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from jobs.sinks.contract import Sink
    from tests.support.events.batches import Feed

LSN = 0x16_B374_D848
MOST_READ = 500

OpenFeed = Callable[..., "Feed"]
Read = Callable[[], Counter[str]]
"""Reads the whole view as people do: how many rows there are of each name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the tests have to know of a kind of store."""

    make: Callable[[pytest.FixtureRequest, Path], Store]
    reader: Callable[[SparkSession, Any, str], Read]
    """As people read the view, in their own way."""
    left_over: Callable[[Any, str, Path], list[str]]
    """Whatever the store holds of a view."""
    served: bool = True
    """It is a server, so that it can be down; its kind is its name in ``stack.servers``."""


def _delta_reader(spark: SparkSession, store: Delta, view: str) -> Read:  # noqa: ARG001
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    def read() -> Counter[str]:
        table = QueryBuilder().register("v", DeltaTable(f"{store.path}/{view}"))
        found = pa.table(table.execute("select name from v").read_all())
        return Counter(found.column("name").to_pylist())

    return read


def _search_reader(spark: SparkSession, store: OpenSearch, view: str) -> Read:  # noqa: ARG001
    search = opensearchpy.OpenSearch(hosts=[store.url])

    def read() -> Counter[str]:
        found = search.search(index=view, body={"size": MOST_READ})
        return Counter(hit["_source"]["name"] for hit in found["hits"]["hits"])

    return read


def _redis_reader(spark: SparkSession, store: Redis, view: str) -> Read:  # noqa: ARG001
    client: Any = redis.Redis.from_url(store.url, decode_responses=True)

    def read() -> Counter[str]:
        rows = client.get(f"{view}@live")
        pipeline = client.pipeline(transaction=False)
        for i in range(MOST_READ):
            pipeline.hget(f"{rows}:{i}", "doc")
        found = (doc for doc in pipeline.execute() if doc is not None)
        return Counter(doc.split('"')[5] for doc in found)

    return read


def _postgres_reader(spark: SparkSession, store: Postgres, view: str) -> Read:  # noqa: ARG001
    query = sql.SQL("select name from {}").format(sql.Identifier(store.target_schema, view))

    def read() -> Counter[str]:
        with psycopg.connect(store.dsn) as conn:
            return Counter(name for (name,) in conn.execute(query))

    return read


def _indexes(store: OpenSearch, view: str, home: Path) -> list[str]:  # noqa: ARG001
    return list(opensearchpy.OpenSearch(hosts=[store.url]).indices.get(index=f"{view}*"))


def _keys(store: Redis, view: str, home: Path) -> list[str]:  # noqa: ARG001
    client: Any = redis.Redis.from_url(store.url, decode_responses=True)
    return list(client.scan_iter(f"*{view}*"))


def _relations(store: Postgres, view: str, home: Path) -> list[str]:  # noqa: ARG001
    with psycopg.connect(store.dsn) as conn:
        found = conn.execute("select relname from pg_class where relname like %s", [f"%{view}%"])
        return [name for (name,) in found]


KINDS: dict[str, Kind] = {
    "delta": Kind(
        lambda request, home: Delta(kind="delta", path=str(home)),  # noqa: ARG005
        _delta_reader,
        lambda store, view, home: [path.name for path in home.iterdir()],  # noqa: ARG005
        served=False,
    ),
    "opensearch": Kind(
        lambda request, home: OpenSearch(  # noqa: ARG005
            kind="opensearch", url=request.getfixturevalue("opensearch")
        ),
        _search_reader,
        _indexes,
    ),
    "redis": Kind(
        lambda request, home: Redis(  # noqa: ARG005
            kind="redis", url=request.getfixturevalue("redis_server")
        ),
        _redis_reader,
        _keys,
    ),
    "postgres": Kind(
        lambda request, home: Postgres(  # noqa: ARG005
            kind="postgres", dsn=request.getfixturevalue("store_database")
        ),
        _postgres_reader,
        _relations,
    ),
}


def items() -> StructType:
    """The columns of a view where they do not matter."""
    from pyspark.sql.types import LongType, StringType, StructType

    return StructType().add("id", LongType()).add("name", StringType())


FEW = ("redis", "delta")
"""One that takes rows and one that takes commits: for what is the same in all but for these."""


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return KINDS[request.param].make(request, tmp_path)


@pytest.fixture(params=[name for name, kind in KINDS.items() if kind.served])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that is a server, so that it can be down."""
    return KINDS[request.param].make(request, tmp_path)


@pytest.fixture
def open_feed(spark: SparkSession, source_name: str) -> Iterator[OpenFeed]:
    """Opens the test's view in a store, as a process that starts does."""
    from jobs.sinks.stores import open_sink
    from tests.support.events.batches import Feed

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
