"""The Spark session of a process: one for all its views."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from cdc.config import Config
from stack.jars import jars as jars_of
from stack.java import find_java

# PySpark's: they write every fault's text, which may hold values, also of a batch tried again.
_TELLTALES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOG = Path(__file__).with_name("log4j2.properties")
# Local settings, each measured: a micro-batch's fixed cost is planning and tiny tasks.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # its bars share lines with the log's events
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.memory": "2g",
    # Filling a view cold, more than half of the CPU was the second compiler's: what it compiles
    # has to be four times as hot. `spark.driver.extraJavaOptions` comes after these.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=20000"
    " -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000"
    f" -XX:Tier4BackEdgeThreshold=160000 -Dlog4j2.configurationFile={_LOG.as_uri()}",
}
_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",  # timestamps are instants or have no zone
    "spark.sql.ansi.enabled": "true",  # overflow and bad casts are errors, as in PostgreSQL
    "spark.sql.caseSensitive": "true",
    # A batch is cached for a moment: trying encodings on every value costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # Spark's own pattern, and the key of a client's certificate: not in plans, not in logs.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|keystore[.]key",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@contextmanager
def spark_session(config: Config) -> Iterator[SparkSession]:
    """The session that ``config.apply`` describes, with its jars; stopped at the end."""
    find_java()
    spark = open_session(config.apply.master, config.apply.spark, jars_of("spark"))
    try:
        yield spark
    finally:
        spark.stop()


def open_session(
    master: str, settings: Mapping[str, str], jars: Sequence[Path], name: str = "headwater"
) -> SparkSession:
    """Start Spark, or take the session of this process. ``settings`` win over ours.

    ``jars`` go on the driver's class path: with a local master that is every class path.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers take the python3 on PATH
    for name in _TELLTALES:
        logging.getLogger(name).disabled = True
    local = _LOCAL if master.startswith("local") else {}
    wanted = {**local, **_SETTINGS, **settings}
    if jars:
        wanted.setdefault("spark.driver.extraClassPath", ":".join(str(jar) for jar in jars))
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    with _children_ignoring_sigterm():
        return builder.getOrCreate()


_ignoring = False


@contextmanager
def _children_ignoring_sigterm() -> Iterator[None]:
    """Java, started herein, leaves SIGTERM to us, as PySpark makes it leave SIGINT.

    Service managers signal every process of a service. Spark that ends by itself fails the batches
    that are being applied; it ends with us, when its standard input closes.
    """
    global _ignoring
    _ignoring = True
    try:
        yield
    finally:
        _ignoring = False


def _in_child() -> None:
    if _ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_child)  # also for Popen with PySpark's preexec_fn
