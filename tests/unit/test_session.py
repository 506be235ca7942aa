"""What the session of ``headwater apply`` writes to its terminal, and says where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc.errors import StackError
from jobs.spark.session import open_session
from stack.ports import free_port

ROOT = Path(__file__).parents[2]
FAILING = """
from pathlib import Path
from threading import Thread
from jobs.spark.session import open_session
from stack.jars import jars
from tests.waiting import wait_until
def cancelled():
    try:
        session.range(1 << 30).selectExpr("id", "cast(id as string) as v").toArrow()
    except Exception as error:
        told.append("cancelled" if "CANCELLED" in str(error) else str(error))
told = []
session = open_session("local[1]", {"spark.sql.warehouse.dir": WAREHOUSE}, jars("spark"))
rows = session.createDataFrame([("quoted-value",)], "v string")
cast = rows.selectExpr("cast(v as int) as n")
for fail in (
    cast.collect,
    cast.write.format("delta").option("path", WAREHOUSE + "/delta").save,
    cast.write.format("noop").mode("overwrite").save,
):
    try:
        fail()
    except Exception as error:
        assert "quoted-value" in str(error)
    else:
        raise AssertionError("the cast has to fail")
thread = Thread(target=cancelled)
thread.start()
tracker = session.sparkContext.statusTracker()
wait_until(lambda: list(tracker.getActiveJobsIds()) or not thread.is_alive(), "a job", 60)
session.sparkContext.cancelAllJobs()
thread.join()
assert told == ["cancelled"], told
environ = session._jvm.System.getenv()
assert (environ["LC_CTYPE"], environ["LC_MESSAGES"]) == ("C.UTF-8", "C"), environ
session.range(1).write.json(WAREHOUSE + "/wärme")
assert Path(WAREHOUSE, "wärme", "_SUCCESS").exists()
session.stop()
"""


def test_spark_does_not_log_the_values_it_fails_on(tmp_path: Path) -> None:
    """Its own lines about a failed task quote them, and nobody asked for those. And in a locale
    without letters it finds files by their names all the same, and tells faults in English."""
    script = FAILING.replace("WAREHOUSE", repr(str(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "LC_ALL": "C", "LC_MESSAGES": "de_DE.UTF-8", "POSIXLY_CORRECT": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", ""), "and nothing of its own is for a terminal"


def test_a_cluster_whose_masters_are_away_is_told_at_once() -> None:
    """Spark would try for a minute."""
    first, second = (f"127.0.0.1:{free_port(set())}" for _ in range(2))
    said = f"no Spark master answers at {first}: Connection refused, {second}: Connection refused:"
    with pytest.raises(StackError, match=said):
        open_session(f"spark://{first},{second}", {}, [])
