"""A little of what ``headwater apply`` does with Spark: whose classes ``class_archive`` keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobs.spark.jars import jars
from jobs.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_KAFKA: Final = "127.0.0.1:9"
_END_S: Final = 300.0


def load(directory: str) -> None:
    """In a process of its own: run a little of everything, and wait until the JVM has ended."""
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
