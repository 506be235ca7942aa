"""A deployment on the session's servers, and the small source that most tests of capture share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc.config import Config, Redis
from stack import servers
from tests.support.commands.deployment import Deployment
from tests.support.servers.stores import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.events.written_topics import Log
    from tests.support.views.bootstraps import Setting
    from tests.support.views.snapshot_log import Table

Freeze = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def deployment(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    """A database of its own that holds nothing yet."""
    return Deployment(tmp_path, source_name, database, kafka)


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """One table. A module whose tests need another source has a ``shop`` of its own."""
    deployment.execute("create table item (id int primary key, name text)")
    return deployment


@pytest.fixture
def frozen_kafka(stack_home: Path) -> Freeze:
    """A block in which the broker keeps its connections and answers nothing."""

    @contextmanager
    def frozen() -> Iterator[None]:
        (pid,) = [line.pid for line in servers.status(stack_home) if line.name == "kafka"]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return frozen


@pytest.fixture
def table(kafka: str, source_name: str) -> Table:
    """A table whose log is written by hand, with snapshots of it."""
    from tests.support.events.written_topics import V1, Log
    from tests.support.views.snapshot_log import Table

    log = Log(kafka, source_name)
    log.describe(V1)
    return Table(log)


@pytest.fixture
def log(kafka: str, source_name: str) -> Log:
    """Events of one table, written by hand."""
    from tests.support.events.written_topics import V1, Log

    written = Log(kafka, source_name)
    written.describe(V1)
    return written


@pytest.fixture
def config(log: Log, tmp_path: Path) -> Config:
    """The view ``v`` of that table, into a store that a test gives when it applies."""
    from tests.support.views.recording_sink import configured

    return configured(log, tmp_path, v="select * from t")


@pytest.fixture
def setting(spark: SparkSession, table: Table, store: Store, tmp_path: Path) -> Iterator[Setting]:
    """A view of ``table`` that is built by a test, in each of the stores."""
    from tests.support.views.bootstraps import Setting

    made = Setting(spark, table, store, tmp_path)
    yield made
    made.broker.close()


@pytest.fixture
def cached(
    spark: SparkSession, table: Table, redis_server: str, tmp_path: Path
) -> Iterator[Setting]:
    """The same in the fastest of the stores, for what is the same in all."""
    from tests.support.views.bootstraps import Setting

    made = Setting(spark, table, Redis(kind="redis", url=redis_server), tmp_path)
    yield made
    made.broker.close()
