"""What the session of ``headwater apply`` writes to its terminal, and says where there is none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cdc.errors import StackError
from jobs.spark.gateway import properties
from jobs.spark.session import open_session
from stack.ports import free_port

ROOT = Path(__file__).parents[4]
FAILING = """
from pathlib import Path
from threading import Thread
from jobs.spark.session import open_session
from jobs.spark.jars import jars
from tests.support.waiting import wait_until
def cancelled():
    try:
        session.range(1 << 30).selectExpr("id", "cast(id as string) as v").toArrow()
    except Exception as error:
        told.append("cancelled" if "CANCELLED" in str(error) else str(error))
told = []
SECRET = "pass: word = # ! \\\\ \N{LATIN SMALL LETTER A WITH DIAERESIS}"
CLOSED = {
    "spark.ui.enabled": "false",
    "spark.authenticate": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
settings = {"spark.sql.warehouse.dir": WAREHOUSE, "spark.hadoop.fs.s3a.secret.key": SECRET}
session = open_session("local[1]", {**settings, "spark.driver.memory": "701m"}, jars("spark"))
context = session.sparkContext
command = Path(f"/proc/{context._gateway.proc.pid}/cmdline").read_bytes()
assert SECRET.encode() not in command and b"-Xmx701m" in command, command
assert context._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == SECRET
asked = {name: context.getConf().get(name) for name in CLOSED}
assert asked == CLOSED, asked
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


@pytest.mark.server
def test_spark_does_not_log_the_values_it_fails_on(tmp_path: Path) -> None:
    """Its own lines about a failed task quote them, and nobody asked for those. And in a locale
    without letters it finds files by their names all the same, and tells faults in English. Nor do
    settings stand in the arguments of its process, and who connects to it has to prove itself."""
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
    said = f"no Spark master answers at {first}: Connection refused, {second}: Connection refused. "
    with pytest.raises(StackError, match=said):
        open_session(f"spark://{first},{second}", {}, [])


def test_a_cluster_is_not_used_without_the_secret_that_it_shares() -> None:
    """Who reaches it could run code where the passwords of all stores are."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        master = f"spark://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(
            StackError, match=r"spark\.authenticate\.secret is not set, but spark://"
        ):
            open_session(master, {}, [])


def test_settings_are_read_by_java_as_they_are() -> None:
    """Beyond ASCII as UTF-16, and nothing of a value ends its line or its name."""
    told = properties({"a.b:c": "x = y\n", "k": "ä😀\\", "empty": ""})
    assert told == ("a.b\\:c=x\\ \\=\\ y\\n\nk=\\u00e4\\ud83d\\ude00\\\\\nempty=\n")
