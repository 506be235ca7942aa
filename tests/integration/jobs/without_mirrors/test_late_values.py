"""Values that updates leave out, and late rows of snapshots that have older ones: every store."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc.config import Config
from cdc.events.codes import PLACEHOLDER
from cdc.kafka.broker import Broker
from jobs.sinks.stores import open_sink
from jobs.spark.column_types import columns_of
from jobs.without_mirrors.schemas_topic import read_versions
from jobs.without_mirrors.views import apply_views
from tests.support.events.events import Record, snapshot
from tests.support.events.written_topics import V2, row, v2
from tests.support.servers.stores import KINDS
from views.parse.definition import parse_view
from views.spark.resolution import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.events.written_topics import Log

PLAIN = "select id, body, n from t"
VIEWS: dict[str, tuple[str, str, str]] = {
    **{kind: (kind, PLAIN, "") for kind in KINDS},
    "redis": ("redis", "select id, upper(body) as body, n from t", ""),
    "delta": ("delta", f"{PLAIN} where n > 0", ""),
    "log": ("delta", PLAIN, "log"),
    "scd2": ("delta", PLAIN, "scd2"),
}
"""Store, SQL and history."""
LIMITS = ("batch_writer.FEW_ROWS", "delta.small_merge.SMALL_TABLE_BYTES")
"""Above which not the driver writes rows. Of histories both write the same:
``tests/unit/jobs/sinks/delta/test_delta_history_which.py``."""


class Views:
    """A view in each store, with histories, WHERE and an expression: all read the same batches."""

    def __init__(self, spark: SparkSession, log: Log, config: Config) -> None:
        self._spark, self._log, self._config = spark, log, config
        self.state = Path(config.apply.state)

    def apply(self, *records: Record) -> None:
        self._log.write(*records)
        views = list(self._config.views)
        assert apply_views(self._spark, self._config, views, threading.Event(), True) == {}

    def shown(self) -> dict[str, dict[Any, Any]]:
        """``body`` by ``id``, in lower case, of each view."""
        with Broker(self._log.bootstrap) as broker:
            versions = read_versions(broker, self._log.source, "public", "t")
        (*_, newest) = versions.values()
        found = {}
        for name, (store, sql, history) in VIEWS.items():
            view = f"{self._log.source}_{name}"
            columns = columns_of(resolve(parse_view(view, store, ("id",), sql), newest))
            sink = open_sink(self._config.stores[store], view, self._spark, history=history)
            sink.prepare(columns, ("id",))
            found[name] = {one.key[0]: str(one.values["body"]).lower() for one in sink.scan()}
            sink.close()
        return found


@pytest.fixture
def views(spark: SparkSession, log: Log, request: pytest.FixtureRequest, tmp_path: Path) -> Views:
    log.describe(V2)
    stores = {name: kind.make(request, tmp_path / "lake") for name, kind in KINDS.items()}
    found = {
        f"{log.source}_{name}": {"store": store, "key": ["id"], "sql": sql}
        | ({"history": history} if history else {})
        for name, (store, sql, history) in VIEWS.items()
    }
    config = Config.model_validate({
        "source": {"name": log.source, "dsn": "dbname=unused", "tables": ["public.t"]},
        "kafka": {"bootstrap_servers": log.bootstrap},
        "stores": {name: store.model_dump() for name, store in stores.items()},
        "views": found,
        "apply": {"state": str(tmp_path / "state"), "retry_s": 30},
    })  # fmt: skip
    return Views(spark, log, config)


def late(id_: int, lsn: int = 100) -> tuple[Record, Record]:
    """A row as it was read at 50, and an update that leaves its value out."""
    read = snapshot(50, row(id_, "of 50", n=1), V2.schema_id())
    return read, v2(lsn, 1, row(id_, PLACEHOLDER, n=2), "u")


def test_a_late_row_of_a_snapshot_has_no_say_on_values_of_newer_ones(
    views: Views, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written by the driver, and by tasks, in a batch that a checkpoint of before plans again."""
    views.apply(*(v2(90, id_, row(id_, "of 90", n=id_ % 2), "u") for id_ in (1, 2, 5, 6)))
    shutil.copytree(views.state, tmp_path / "kept")
    views.apply(*(record for id_ in (1, 2, 3) for record in late(id_)))
    expected = {1: "of 90", 2: "of 90", 3: "of 50"}
    shown = {name: {id_: of[id_] for id_ in expected} for name, of in views.shown().items()}
    assert shown == dict.fromkeys(VIEWS, expected)
    shutil.rmtree(views.state)
    shutil.copytree(tmp_path / "kept", views.state)
    for place in LIMITS:
        monkeypatch.setattr(f"jobs.sinks.{place}", 0)
    views.apply(*(record for id_ in (5, 6, 7) for record in late(id_, 110)))
    expected |= {5: "of 90", 6: "of 90", 7: "of 50"}
    assert views.shown() == dict.fromkeys(VIEWS, expected)
