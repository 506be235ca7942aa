"""One local Spark for a whole run of pytest, with the jars and settings of ``headwater apply``.

But it compiles no code: most of what tests compute is done before code for it would be compiled.
Compiled code is tested in ``compiled``, and by what starts a Spark of its own
(``tests.support.servers.lent_jvm``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stack.guardian import Guardian
from tests.support.servers.lent_jvm import Lender

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_FACTORY = "spark.sql.codegen.factoryMode"
QUICK = {
    _WHOLE_STAGE: "false",
    _FACTORY: "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""A few rows are computed sooner than code for them is compiled, or several tasks are started."""


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """For what may depend on it that many rows are computed by compiled code."""
    with _set(spark, {_WHOLE_STAGE: "true", _FACTORY: "FALLBACK"}):
        yield


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


@contextmanager
def local_spark(guardian: Guardian, memory: str = "2g") -> Iterator[SparkSession]:
    """A session; its warehouse is deleted with it."""
    from jobs.spark.jars import jars
    from jobs.spark.session import open_session

    with tempfile.TemporaryDirectory(prefix="headwater-spark-") as directory:
        guardian.delete(Path(directory))
        settings = {
            "spark.sql.warehouse.dir": str(Path(directory) / "warehouse"),
            "spark.local.dir": directory,
            "spark.driver.memory": memory,
            **QUICK,
        }
        session = open_session("local[2]", settings, jars("spark"), "headwater-tests")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def spark(guardian: Guardian) -> Iterator[SparkSession]:
    """The session of the run."""
    with local_spark(guardian) as session:
        yield session


@pytest.fixture(scope="session")
def lender(spark: SparkSession) -> Lender:
    """The session's JVM, for other processes."""
    return Lender(spark)
