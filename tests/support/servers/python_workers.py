"""The Python processes beside Spark that execute its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stack.process import Process, descendants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def python_workers(spark: SparkSession) -> list[Process]:
    """Those of a local master: children of a daemon. There may be none yet."""
    gateway: Any = spark.sparkContext._gateway
    daemons = [
        one
        for one in descendants(gateway.proc.pid)
        if b"pyspark.daemon" in Path(f"/proc/{one.pid}/cmdline").read_bytes()
    ]
    return [one for daemon in daemons for one in descendants(daemon.pid)]
