"""What the JVM makes of Spark's classes when it loads them, kept in a file that the next one maps.

Loading and verifying them is a third of the CPU of a short command that starts Spark. HotSpot can
leave its result in an archive (application class-data sharing): ``python -m
jobs.spark.class_archive`` runs a little of what ``headwater apply`` does and keeps what was loaded,
in the environment whose Spark it is. A JVM uses an archive only with the very files it was made of,
down to when they were written, and loads as ever without one: so an environment installed anew has
another archive.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdc.errors import StackError
from jobs.spark.jars import cache_directory, locked
from jobs.spark.java import java_in_use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Else it tells on stdout, where answers are, why it does not use an archive."""
_NO_KAFKA: Final = "127.0.0.1:9"
_LIMIT_S: Final = 600.0
_END_S: Final = 300.0


def archive() -> Path:
    """Where the archive is for the Java in use and the class path of Spark, built or not.

    Raises ``StackError`` when there is no Java.
    """
    java = java_in_use().resolve()
    modules = java.parents[1] / "lib" / "modules"  # the JDK's own classes
    digest = hashlib.sha256(Path(__file__).read_bytes())  # what is loaded for it
    for path in (java, modules, *_class_path()):
        found = path.stat() if path.is_file() else None
        stamp = found and (found.st_size, found.st_mtime_ns)
        digest.update(f"{path}\0{stamp}\0".encode())
    return Path(sys.prefix) / "share" / "headwater" / f"spark-{digest.hexdigest()[:16]}.jsa"


def _class_path() -> list[Path]:
    """Every jar a driver of this environment starts with: those we add, and Spark's own."""
    spec = find_spec("pyspark")
    package = str(spec and spec.origin)
    spark = Path(os.environ.get("SPARK_HOME") or Path(package).parent)
    added = [cache_directory() / "jars" / jar.path for jar in locked("spark")]
    return [*added, *sorted((spark / "jars").glob("*.jar"))]


def options() -> str:
    """What a JVM is told that it use the archive, as Spark reads options; nothing where none was
    built."""
    path = archive()
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if path.is_file() else ""


def build(path: Path) -> None:
    """Write the archive, whole or not at all: a JVM that maps half of one would crash.

    Raises ``StackError`` when this Java makes none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        made = Path(directory) / path.name
        log = Path(directory) / "log"
        environ = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made} -Xlog:disable",
        }
        command = [sys.executable, "-c", _CHILD, directory]
        with log.open("wb") as output:
            done = subprocess.run(
                command, env=environ, stdout=output, stderr=output, timeout=_LIMIT_S, check=False
            )
        if done.returncode or not made.is_file():
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise StackError(f"no archive of Spark's classes came of a run of Spark\n{said}")
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)
    for other in path.parent.glob("spark-*.jsa"):
        if other != path:  # of files that are no longer there; whoever maps it keeps it
            other.unlink(missing_ok=True)


_CHILD: Final = "import sys; from jobs.spark.class_archive import load; load(sys.argv[1])"


def load(directory: str) -> None:
    """In a process of its own: run a little of everything, and wait until the JVM has ended."""
    from jobs.spark.jars import jars
    from jobs.spark.session import open_session

    settings = {
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.local.dir": directory,
    }
    spark = open_session("local[2]", settings, jars("spark"))
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "Spark runs in a JVM of this process"
    _run(spark, Path(directory))
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when it does
    gateway.proc.wait(_END_S)


def _run(spark: SparkSession, directory: Path) -> None:
    """A stream into Delta by MERGE; a fold of events by tasks in Python; and Kafka's clients."""
    _merge_stream(spark, directory)
    for part in (fold_by_tasks, ask_kafka):
        try:
            part(spark)
        except Exception as error:  # half an archive is better than none
            print(f"without {part.__name__}: {error}", file=sys.stderr)


def _merge_stream(spark: SparkSession, directory: Path) -> None:
    """Over parsed JSON, with a window."""
    from delta.tables import DeltaTable
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    source, target = str(directory / "source"), str(directory / "target")
    rows = spark.range(64).select(
        F.col("id"), F.to_json(F.struct("id", F.current_timestamp().alias("at"))).alias("value")
    )
    rows.write.format("delta").save(source)
    rows.write.format("delta").save(target)
    newest = Window.partitionBy("id").orderBy(F.desc("at"))

    def merge(batch: DataFrame, _number: int) -> None:
        parsed = batch.select(
            "id", "value", F.from_json("value", "id bigint, at timestamp")["at"].alias("at")
        )
        last = parsed.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n", "at")
        last.persist()
        table = DeltaTable.forPath(batch.sparkSession, target)
        matched = table.alias("t").merge(last.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
        matched.whenNotMatchedInsertAll().execute()
        last.groupBy("value").count().toArrow()
        last.unpersist()

    stream = spark.readStream.format("delta").load(source).writeStream.foreachBatch(merge)
    checkpoint = str(directory / "checkpoint")
    stream.trigger(availableNow=True).option(
        "checkpointLocation", checkpoint
    ).start().awaitTermination()


def fold_by_tasks(spark: SparkSession) -> None:
    """Python reads, Spark folds, Python writes, as with a large batch."""
    from pyspark.sql import functions as F

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        yield from batches

    event = F.struct(F.col("id").alias("lsn"), F.lit("u").alias("op"), F.array(F.lit("x")))
    folded = (
        spark.range(0, 64, 1, 2).mapInArrow(read, "id bigint").repartition("id").groupBy("id")
        .agg(F.max_by(event, F.struct("id")).alias("event"))
        .select("id", F.to_json("event").alias("body"), "event.op", F.array("event.op").alias("a"))
    ).persist()  # fmt: skip
    sample = F.filter(F.sort_array(F.collect_list("id")), lambda one, at: one >= at)
    folded.agg(sample, F.max(F.struct("id", "op")), F.count_if(F.col("op") == "u")).collect()
    folded.mapInArrow(read, folded.schema).count()
    folded.unpersist()


def ask_kafka(spark: SparkSession) -> None:
    """Nobody answers."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    read = {
        "kafka.bootstrap.servers": _NO_KAFKA,
        "kafka.default.api.timeout.ms": "1000",
        "kafka.request.timeout.ms": "500",
        "fetchOffset.numRetries": "1",
        "subscribe": "none",
    }
    try:
        spark.read.format("kafka").options(**read).load().count()
    except (PySparkException, Py4JJavaError) as error:
        if "TimeoutException" not in str(error):  # it did not come so far as to ask
            raise
    jvm: Any = spark.sparkContext._jvm
    text = "org.apache.kafka.common.serialization.StringDeserializer"
    settings = {"bootstrap.servers": _NO_KAFKA, "key.deserializer": text}
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
        {**settings, "value.deserializer": text}
    )
    try:
        consumer.assign([jvm.org.apache.kafka.common.TopicPartition("none", 0)])
        consumer.poll(jvm.java.time.Duration.ofSeconds(1))
        jvm.org.apache.kafka.common.protocol.Errors.values()  # a class each
    finally:
        consumer.close()


def main() -> None:
    """Build the archive if there is none. Without it all works, each start is slower."""
    try:
        path = archive()
        if not path.is_file():
            print("keeping Spark's classes loaded, for quicker starts")
            build(path)
    except (StackError, subprocess.SubprocessError, OSError) as error:
        print(f"note: {error}; commands that start Spark will take longer", file=sys.stderr)


if __name__ == "__main__":
    main()
