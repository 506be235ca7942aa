"""Settings of Spark's JVM in a process whose batches are small: little CPU, bounded memory.

Measured with six transactions a second, one to two minutes after the start: a batch takes 57 ms of
CPU with the first compiler alone, 75 ms with both, a third of which is the second one's; it would
pay for itself after some ten minutes. What moves much data is done by tasks in Python.
"""

from __future__ import annotations

from typing import Final

from cdc.config import Config
from jobs.spark import class_archive
from jobs.spark.session import LOGGING

HEAP_BYTES: Final = 640 << 20
"""Spark starts with no less than 450 MB; the rest is for a MERGE into a large Delta table."""
_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxMetaspaceSize=256m",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:MaxDirectMemorySize=128m",
    LOGGING,
)
_KEPT: Final = {
    # Spark keeps what its own pages would show, of the last thousand jobs and queries each.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.ui.explainMode": "simple",
}


def light_settings(heap_bytes: int = HEAP_BYTES) -> dict[str, str]:
    """For ``jobs.spark.session.open_session`` with a local master. Raises ``StackError`` without
    Java."""
    options = " ".join([*_OPTIONS, class_archive.options()]).strip()
    return {
        "spark.driver.memory": f"{heap_bytes >> 20}m",
        "spark.driver.defaultJavaOptions": options,
        **_KEPT,
    }


def light(config: Config) -> Config:
    """The same with a JVM of such settings where views are kept over the state database, by this
    machine alone; what ``apply.spark`` says wins."""
    apply = config.apply
    if apply.engine != "database" or not apply.master.startswith("local"):
        return config
    spark = {**light_settings(), **apply.spark}
    return config.model_copy(update={"apply": apply.model_copy(update={"spark": spark})})
