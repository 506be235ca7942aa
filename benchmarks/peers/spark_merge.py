"""What people build today: Debezium's events from Kafka into a Delta table by foreachBatch.

``python -m benchmarks.peers.spark_merge BOOTSTRAP TOPIC TABLE [now]``: the newest event of each key
by ``row_number``, then one MERGE; with ``now`` until what is there has been merged, else until
stopped. Spark and Delta with their defaults, but for the driver's memory, which is that of
``headwater apply``. It imports nothing of Headwater's but where the jars are. Prints lines of JSON:
``started``, ``merged`` for each batch, and ``reached``, how far that is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs.spark.jars import jars
from jobs.spark.java import find_java

MEMORY: Final = "2g"
COLUMNS: Final = (
    ("id", "BIGINT"),
    ("customer_id", "INT"),
    ("status", "STRING"),
    ("total", "DECIMAL(12, 2)"),
    ("note", "STRING"),
    ("ordered_at", "TIMESTAMP"),
    ("updated_at", "TIMESTAMP"),
)
"""Of a usual row."""
_ROW: Final = ", ".join(f"{name}: {kind}" for name, kind in COLUMNS)
_EVENT: Final = f"before STRUCT<{_ROW}>, after STRUCT<{_ROW}>, op STRING"
_POLL_S: Final = 0.2


def main(arguments: list[str]) -> None:
    """Merge until there is no more, or until killed."""
    bootstrap, topic, table, *when = arguments
    spark = _session()
    _create(spark, table)
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = events.writeStream.option("checkpointLocation", f"{table}.checkpoint").foreachBatch(
        lambda batch, number: _merge(batch, number, table)
    )
    query = (writer.trigger(availableNow=True) if when else writer).start()
    _say("started")
    told = -1
    while True:
        active, progress = query.isActive, query.lastProgress
        if progress is not None and progress["batchId"] > told:
            told = progress["batchId"]
            ends = json.loads(progress["sources"][0]["endOffset"])[topic]
            _say("reached", batch=told, records=sum(ends.values()))
        if not active:
            break
        time.sleep(_POLL_S)
    query.awaitTermination()
    spark.stop()


def _session() -> SparkSession:
    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": MEMORY,
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in jars("spark")),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]").appName("plain merge")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _create(spark: SparkSession, table: str) -> None:
    builder = DeltaTable.createIfNotExists(spark).location(table)
    for name, kind in COLUMNS:
        builder = builder.addColumn(name, kind)
    builder.execute()


def _merge(batch: DataFrame, number: int, table: str) -> None:
    """One batch: an event of a key is newer than those at lower offsets, as a key has one
    partition. Tombstones say what a delete has said."""
    event = F.from_json(F.col("value").cast("string"), _EVENT).alias("event")
    events = batch.where("value IS NOT NULL").select(event, "offset")
    rows = events.select(
        F.coalesce("event.after", "event.before").alias("row"), "event.op", "offset"
    )
    of_key = Window.partitionBy("row.id").orderBy(F.col("offset").desc())
    newest = rows.withColumn("rank", F.row_number().over(of_key)).where("rank = 1")
    source = newest.select("row.*", "op")
    columns: dict[str, Any] = {name: F.col(f"s.{name}") for name, _ in COLUMNS}
    (
        DeltaTable.forPath(batch.sparkSession, table)
        .alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete("s.op = 'd'")
        .whenMatchedUpdate(set=columns)
        .whenNotMatchedInsert("s.op != 'd'", columns)
        .execute()
    )
    _say("merged", batch=number)


def _say(event: str, **what: object) -> None:
    line = {"event": event, "timestamp": datetime.now(UTC).isoformat(), **what}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
