"""One local Spark for a whole run of pytest, with the jars and settings of ``headwater apply``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stack.guardian import Guardian

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(guardian: Guardian) -> Iterator[SparkSession]:
    """A session; its warehouse is deleted with it."""
    from jobs.session import open_session
    from stack.jars import jars

    with tempfile.TemporaryDirectory(prefix="headwater-spark-") as directory:
        guardian.delete(Path(directory))
        settings = {
            "spark.sql.warehouse.dir": str(Path(directory) / "warehouse"),
            "spark.local.dir": directory,
        }
        session = open_session("local[2]", settings, jars("spark"), "headwater-tests")
        yield session
        session.stop()
