"""What executors did of an application, and what they have written, in each kind of store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import redis
from deltalake import DeltaTable, QueryBuilder
from opensearchpy import OpenSearch, helpers
from psycopg import sql

Rows = dict[int, str]


class Kept:
    """A table of two columns, ``id`` and ``body``, and a view of it in a store of one kind."""

    def __init__(self, table: str, rows: Callable[[], Rows]) -> None:
        self.table, self.rows = table, rows

    def has(self, rows: Rows) -> bool:
        """Whether the view is these rows."""
        return self.rows() == rows

    def progress(self, body: str) -> int:
        """Grows while executors write rows that are to have this body."""
        return Counter(self.rows().values())[body]


class KeptInDelta(Kept):
    """Whose rows are seen together, when all are written."""

    def __init__(self, table: str, rows: Callable[[], Rows], place: Path) -> None:
        super().__init__(table, rows)
        self._place = place

    def progress(self, body: str) -> int:  # noqa: ARG002
        return len(list(self._place.glob("*.parquet")))


def every_store(source: str, addresses: Mapping[str, str], lake: Path) -> dict[str, Kept]:
    """Views ``<source>_<store>`` of tables ``of_<store>``."""
    client: Any = redis.Redis.from_url(addresses["redis"], decode_responses=True)
    search = OpenSearch(addresses["opensearch"])

    def in_redis() -> Rows:
        live = client.get(f"{source}_redis@live")
        pipeline = client.pipeline(transaction=False)
        for name in client.scan_iter(f"{live}:*", 5_000):
            pipeline.hget(name, "doc")
        return _by_id(json.loads(doc) for doc in pipeline.execute())

    def in_opensearch() -> Rows:
        index = f"{source}_opensearch"
        search.indices.refresh(index=index)
        found = helpers.scan(search, {"query": {"match_all": {}}}, size=5_000, index=index)
        return _by_id(hit["_source"] for hit in found)

    def in_postgres() -> Rows:
        with psycopg.connect(addresses["postgres"]) as conn:
            view = sql.Identifier(f"{source}_postgres")
            return dict(conn.execute(sql.SQL("select id, body from {}").format(view)).fetchall())

    def in_delta() -> Rows:
        builder = QueryBuilder().register("v", DeltaTable(lake / f"{source}_delta"))
        return _by_id(pa.table(builder.execute("select * from v").read_all()).to_pylist())

    return {
        "redis": Kept("of_redis", in_redis),
        "opensearch": Kept("of_opensearch", in_opensearch),
        "postgres": Kept("of_postgres", in_postgres),
        "delta": KeptInDelta("of_delta", in_delta, lake / f"{source}_delta"),
    }


def _by_id(documents: Iterable[Mapping[str, Any]]) -> Rows:
    return {one["id"]: one["body"] for one in documents}


class Work(NamedTuple):
    """What executors did of an application."""

    ended: Counter[str]
    """Tasks, by executor."""
    python: Counter[str]
    """Bytes of views that went to Python workers, by executor."""
    failed: Counter[str]
    """Tasks, by view: its pool is named like it."""
    removed: int
    """Executors."""

    @classmethod
    def read(cls, events: Path) -> Work:
        """From Spark's log of events of its newest application, as far as it is written."""
        file = max(events.iterdir(), key=lambda one: one.stat().st_mtime)
        ended, python, failed = Counter[str](), Counter[str](), Counter[str]()
        pools, removed = dict[int, str](), 0
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            found = json.loads(line)
            if found["Event"] == "SparkListenerStageSubmitted":
                pool = found["Properties"].get("spark.scheduler.pool", "")
                pools[found["Stage Info"]["Stage ID"]] = pool
            removed += found["Event"] == "SparkListenerExecutorRemoved"
            if found["Event"] != "SparkListenerTaskEnd":
                continue
            task, pool = found["Task Info"], pools[found["Stage ID"]]
            failed[pool] += task["Failed"]
            ended[task["Executor ID"]] += 1
            for one in task["Accumulables"]:
                if one["Name"] == "data sent to Python workers" and pool:
                    python[task["Executor ID"]] += int(one["Update"])
        return cls(ended, python, failed, removed)
