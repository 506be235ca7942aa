"""What the session of ``headwater apply`` writes to its terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAILING = """
from jobs.session import open_session
from stack.jars import jars
session = open_session("local[1]", {"spark.sql.warehouse.dir": WAREHOUSE}, jars("spark"))
rows = session.createDataFrame([("quoted-value",)], "v string")
try:
    rows.selectExpr("cast(v as int)").collect()
except Exception as error:
    assert "quoted-value" in str(error)
else:
    raise AssertionError("the cast has to fail")
session.stop()
"""


def test_spark_does_not_log_the_values_it_fails_on(tmp_path: Path) -> None:
    """Its own lines about a failed task quote them, and nobody asked for those."""
    script = FAILING.replace("WAREHOUSE", repr(str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "quoted-value" not in done.stdout + done.stderr
