"""The Spark session of a process: one for all its views.

The process is the driver, whatever the master: with ``local[*]`` the tasks are its own, with
``spark://host:port`` those of executors, which have the same packages. Started by
``spark-submit`` it takes the Spark that is there, and what that was told wins over ours.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import StackError
from jobs.spark import class_archive
from jobs.spark.gateway import start_jvm
from jobs.spark.heap import driver_heap, memory
from jobs.spark.jars import jars as jars_of
from jobs.spark.java import find_java
from jobs.spark.java_names import remember
from jobs.spark.object_store import settings as with_s3
from jobs.spark.security import CLOSED, ENCRYPTED, LOOPBACK, STANDALONE, refuse_no_secret
from jobs.spark.text_udf import register

# PySpark's: they write every fault's text, which may hold values, also of a batch tried again.
_TELLTALES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_LOG = Path(__file__).with_name("log4j2.properties")
# Of this process, and of a cluster's executors: what a failed task says may hold values.
LOGGING = f"-Dlog4j2.configurationFile={_LOG.as_uri()}"
_DRIVER = {
    **CLOSED,
    "spark.ui.showConsoleProgress": "false",  # its bars share lines with the log's events
    # Filling a view cold, more than half of the CPU was the second compiler's: what it compiles
    # has to be four times as hot. `spark.driver.extraJavaOptions` comes after these.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=20000"
    " -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000"
    f" -XX:Tier4BackEdgeThreshold=160000 {LOGGING}",
}
# A micro-batch's fixed cost is planning and tiny tasks. Figures: a MERGE of 1,000 rows into a table
# of 200,000, two cores.
_LOCAL = {
    **LOOPBACK,
    # Of Spark's 200 tasks behind each exchange nearly all would have no row of a batch.
    "spark.sql.shuffle.partitions": "2",
    # It waits for each stage to plan the next one, which pays for large ones: without it, and
    # without a copy of the source (jobs/sinks/delta/transactions.py), 1.8 s became 1.4.
    "spark.sql.adaptive.enabled": "false",
    # A busy machine ends no view: slow is no fault.
    "spark.sql.broadcastTimeout": "-1",
    # Delta reads a table's state in so many tasks, at every version: with its own 50 3.5 s, so 1.8.
    "spark.databricks.delta.snapshotPartitions": "2",
}
# Without a native library Hadoop starts `chmod` for every local file that it makes, and for the
# checksum beside it: 15 ms of CPU, for each of the two notes of a batch in its checkpoint, too.
_FILES = {
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.ui.explainMode": "simple",  # a text of each query's plan is made, used or not
    "spark.sql.session.timeZone": "UTC",  # timestamps are instants or have no zone
    "spark.sql.ansi.enabled": "true",  # overflow and bad casts are errors, as in PostgreSQL
    "spark.sql.caseSensitive": "true",
    # A batch is cached for a moment: trying encodings on every value costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # OPTIMIZE joins what is smaller, up to the other size; else it writes whatever is below 1 GB
    # again each time: all of a small table.
    "spark.databricks.delta.optimize.minFileSize": str(32 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
    # VACUUM lists folders in so many tasks, however few there are: 10,000, if nothing is said.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # Spark's own pattern, and the key of a client's certificate: not in plans, not in logs.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|keystore[.]key",
    # A kill before the first batch was planned leaves a note of where the source begins. Spark
    # would refuse that ever after, for there might be state beside it: a view has none.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.stopTimeout": "60s",
    # How often a view that is up to date asks Kafka for more. Three of them at Spark's 10 ms took a
    # third of a core to find nothing; a change waits 25 ms longer for it.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_OURS = {
    # Spark's older form counts nanoseconds to whoever else reads it: years beyond 1677 and 2262
    # are other ones then, and tables of views and mirrors are read, and written, by delta-rs too.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

_NEEDED = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
)

_CONNECT_S = 5.0


@contextmanager
def spark_session(config: Config) -> Iterator[SparkSession]:
    """The session that ``config.apply`` describes, with its jars; stopped at the end.

    Raises ``StackError`` when there is no Java, Spark does not start, or lacks our jars.
    """
    find_java()
    spark = open_session(config.apply.master, config.apply.spark, jars_of("spark"))
    try:
        yield spark
    finally:
        spark.stop()


def running_session() -> SparkSession | None:
    """That of this process, which whoever started it stops."""
    running = SparkContext._active_spark_context is not None
    return SparkSession.builder.getOrCreate() if running else None


def open_session(
    master: str, settings: Mapping[str, str], jars: Sequence[Path], name: str = "headwater"
) -> SparkSession:
    """Start Spark, or take the session of this process. ``settings`` win over ours, but for those
    that what is written depends on. What ``spark-submit`` was told wins over both, its master too.

    ``jars`` go on the driver's class path; executors of a cluster get them from the driver.
    Raises ``StackError`` when Spark does not start.
    """
    for logger in _TELLTALES:
        logging.getLogger(logger).disabled = True
    remember()
    given = _given()
    master = given.get("spark.master", master)
    _check_master(master)
    wanted = {**_own(master, jars), **_SETTINGS, **with_s3(os.environ, settings)}
    wanted |= {**given, **_OURS}
    refuse_no_secret(master, wanted)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    _speak_english()
    with _children_ignoring_sigterm():
        session = _started(builder, {**wanted, "spark.app.name": name, "spark.master": master})
    if given:
        _check_jars(session)
        _quiet(session)
    register(session)
    return session


def _check_master(master: str) -> None:
    """Raises ``StackError`` if none of a standalone cluster's masters is there: Spark itself would
    find out in a minute, and tell it in many lines."""
    if not master.startswith(STANDALONE):
        return
    reasons = []
    for place in master.removeprefix(STANDALONE).split(","):
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port
        except ValueError:
            return  # Spark says what is wrong with it
        if host is None or port is None:
            return
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
        else:
            return
    raise StackError(
        f"no Spark master answers at {', '.join(reasons)}",
        "start it, or correct --master (apply.master), see docs/cluster.md",
    )


def under_spark_submit() -> bool:
    """Whether Spark started this process, and not the other way round."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _given() -> dict[str, str]:
    """What ``spark-submit`` was told; nothing if this is none of its processes."""
    if not under_spark_submit():
        return {}
    SparkContext._ensure_initialized()  # else the configuration does not know of Spark
    return dict(SparkConf().getAll())


def _own(master: str, jars: Sequence[Path]) -> dict[str, str]:
    """What we choose for a master."""
    options, executors = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"
    chosen = {
        **_DRIVER,
        "spark.driver.memory": f"{driver_heap(memory()) >> 20}m",
        options: f"{_DRIVER[options]} {class_archive.options()}",
    }
    if jars:
        chosen["spark.driver.extraClassPath"] = ":".join(map(str, jars))
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers take the python3 on PATH
        return {**chosen, **_LOCAL, **(_FILES if jars and not under_spark_submit() else {})}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen |= {**ENCRYPTED, "spark.executorEnv.LC_MESSAGES": "C"}
    return {**chosen, executors: LOGGING, "spark.jars": ",".join(map(str, jars))}


def _speak_english() -> None:
    """Have Java, which is to be started, tell the system's faults in the words that
    ``jobs.spark.disk_full`` knows; the locale's letters stay."""
    if letters := os.environ.pop("LC_ALL", ""):
        # In C Python takes names of files for UTF-8 and Java for ASCII: each `ä` was a `?` to it.
        os.environ["LC_CTYPE"] = "C.UTF-8" if letters in ("C", "POSIX") else letters
    os.environ["LC_MESSAGES"] = "C"


def _started(builder: Any, settings: Mapping[str, str]) -> SparkSession:
    try:
        if not under_spark_submit():
            start_jvm(settings)
        session: SparkSession = builder.getOrCreate()
    except (Py4JJavaError, PySparkException) as error:
        cause = getattr(error, "java_exception", error)
        reason = str(cause).strip().partition("\n")[0]
        raise StackError(
            f"Spark does not start with the master {settings['spark.master']}: {reason}",
            "see its output above, and docs/cluster.md",
        ) from None
    return session


def _quiet(session: SparkSession) -> None:
    """Spark logs as in a process of ours, unless ``spark-submit`` was told how."""
    runtime: Any = session.sparkContext._jvm
    if runtime.java.lang.System.getProperty("log4j2.configurationFile") is None:
        place = runtime.java.net.URI(_LOG.as_uri())
        runtime.org.apache.logging.log4j.core.config.Configurator.reconfigure(place)


def _check_jars(session: SparkSession) -> None:
    """Raises ``StackError`` if Spark was started without what a view needs."""
    runtime: Any = session.sparkContext._jvm
    loader = runtime.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        for one in _NEEDED:
            loader.loadClass(one)
    except Py4JJavaError:
        session.stop()
        raise StackError(
            f"Spark has no {one}: spark-submit was started without Headwater's jars",
            "add --jars, see docs/cluster.md",
        ) from None


def session_beside(session: SparkSession) -> SparkSession:
    """Another session of the same Spark, with settings and temporary views of its own."""
    beside = session.newSession()
    register(beside)  # functions are a session's own, too
    return beside


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
