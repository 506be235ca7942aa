"""A view over a hand-written log and a real store, to be built."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bootstrap.build_parts import Kit
from cdc.config import Config
from cdc.kafka.broker import Broker
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.schemas_topic import read_versions
from jobs.without_mirrors.views import apply_views
from tests.support.servers.stores import Store
from tests.support.views.snapshot_log import Table, TableSnapshots
from views.parse.definition import parse_view
from views.spark.resolution import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = "select * from t"


class Setting:
    """A view ``v`` of a table, its store, and what is known of its builds."""

    def __init__(
        self, spark: SparkSession, table: Table, store: Store, home: Path, name: str = "v"
    ) -> None:
        self.spark, self.table, self._store, self._home = spark, table, store, home
        self.view = f"{table.log.source}_{name}"
        self.snapshots = TableSnapshots(table)
        self.steps: list[str] = []
        self.stopping = threading.Event()
        self.broker = Broker(table.log.bootstrap)
        self.declare(ALL)

    def declare(self, sql: str, history: str = "", **settings: Any) -> None:
        self._history = history
        view: dict[str, Any] = {"store": "s", "key": ["id"], "sql": sql}
        if history:  # which few stores have
            view["history"] = history
        self.config = Config.model_validate(
            {
                "source": {"name": self.table.log.source, "dsn": "dbname=no", "tables": ["t"]},
                "kafka": {"bootstrap_servers": self.table.log.bootstrap},
                "stores": {"s": self._store.model_dump()},
                "views": {self.view: view},
                "apply": {"state": str(self._home / "state"), "retry_s": 30, **settings},
            }
        )

    def kit(self, kind: type[Kit] = Kit, **more: Any) -> Kit:
        return kind(
            self.config,
            self.view,
            self.spark,
            self.broker,
            self.snapshots,
            self.stopping,
            self.steps.append,
            time.time,
            lambda tables: tables,
            **more,
        )

    def apply_now(self) -> None:
        failed = apply_views(self.spark, self.config, [self.view], threading.Event(), True)
        assert failed == {}

    def shown(self) -> dict[Any, Any]:
        """``body`` by ``id``, as people read the view now."""
        store = self.config.stores["s"]
        sink = open_sink(store, self.view, self.spark, history=self._history)
        versions = read_versions(self.broker, self.table.log.source, "public", "t")
        definition = parse_view(self.view, "s", ("id",), ALL)
        sink.prepare(columns_of(resolve(definition, list(versions.values())[-1])), ("id",))
        try:
            return {found.key[0]: found.values["body"] for found in sink.scan()}
        finally:
            sink.close()

    def expected(self) -> dict[int, Any]:
        return {id_: values["body"] for id_, values in self.table.rows.items()}
