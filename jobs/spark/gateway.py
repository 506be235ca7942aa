"""The JVM of a process, started as PySpark would, by ``spark-submit.sh`` beside this file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

_LAUNCHER: Final = Path(__file__).with_name("spark-submit.sh")
_HOME: Final = "SPARK_HOME"
_launch: Any = launch_gateway


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start one with Spark's settings, unless this process has one. Where the launcher cannot be
    executed, PySpark starts its own."""
    if SparkContext._gateway is not None or not os.access(_LAUNCHER, os.X_OK):
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _spark_home():
        gateway = _launch(conf, {"executable": str(_LAUNCHER)})
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _spark_home() -> Iterator[None]:
    """Named to the launcher, which does not lie in it, and to nobody else."""
    if _HOME in os.environ:
        yield
        return
    os.environ[_HOME] = _find_spark_home()
    try:
        yield
    finally:
        del os.environ[_HOME]
