"""Many views built at once, in one Spark, while their table changes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bootstrap.build import Built, build
from cdc.config import Redis
from tests.support.events.written_topics import row
from tests.support.views.bootstraps import Setting
from tests.support.views.snapshot_log import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(900)
@pytest.mark.parametrize("views", [4, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_views_are_built_side_by_side(
    views: int, spark: SparkSession, table: Table, redis_server: str, tmp_path: Path
) -> None:
    """Each is what its own SQL says, and none has rows of another."""
    table.write(*(row(i, f"body {i}") for i in range(100)))
    store = Redis(kind="redis", url=redis_server)
    settings = [Setting(spark, table, store, tmp_path, f"v{n}") for n in range(views)]
    built: dict[int, Built] = {}

    def run(n: int) -> None:
        settings[n].declare(f"select id, body || ' in {n}' as body from t where id % {n + 1} = 0")
        built[n] = build(settings[n].kit())

    threads = [threading.Thread(target=run, args=(n,)) for n in range(views)]
    for thread in threads:
        thread.start()
    for i in range(100, 120):
        table.write(row(i, f"body {i}"), row(i - 100, f"changed {i}"))
        table.delete(i - 50)
    for thread in threads:
        thread.join()
    assert sorted(built) == list(range(views)), [setting.steps[-1:] for setting in settings]
    assert all(one.live for one in built.values())
    for n, setting in enumerate(settings):
        setting.apply_now()  # what came after it had caught up
        wanted = {i: f"{b} in {n}" for i, b in setting.expected().items() if i % (n + 1) == 0}
        assert setting.shown() == wanted
        setting.broker.close()
