"""Views kept by a standalone cluster: ``headwater apply --master`` and plain ``spark-submit``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import redis
from deltalake import DeltaTable, QueryBuilder

from jobs.offsets import MANY_RECORDS
from stack.guardian import Guardian
from stack.jars import jars
from stack.process import kill
from tests.proxy import Proxy, proxied
from tests.spark_cluster import HOME, LOCAL, ROOT, Cluster, standalone
from tests.waiting import wait_until
from tests.written import V1, Log, row, v1

ROWS = MANY_RECORDS + 1_000
"""Of a batch: executors write its rows, from Python."""
LIMIT_S = 900.0
_HEADWATER = (sys.executable, "-c", "from cdc.cli.app import main; main()")
_SUBMIT = str(HOME / "bin" / "spark-submit")
_SCRIPT = str(ROOT / "headwater" / "submit.py")
_CONFIG = """
[source]
name = "{source}"
dsn = "dbname=unused"
tables = ["public.t"]
[kafka]
bootstrap_servers = "{kafka}"
[stores.cache]
kind = "redis"
url = "{redis}"
[stores.lake]
kind = "delta"
path = "./lake"
[views.{source}_cache]
store = "cache"
key = ["id"]
sql = "select id, body from t"
[views.{source}_lake]
store = "lake"
key = ["id"]
sql = "select id, body from t"
[apply]
state = "./state"
[apply.spark]
"spark.cores.max" = "2"
"spark.scheduler.minRegisteredResourcesRatio" = "1.0"    # else the first one may do all
"spark.scheduler.maxRegisteredResourcesWaitingTime" = "600s"
"spark.locality.wait" = "0s"
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.ui.enabled" = "false"
"spark.sql.shuffle.partitions" = "2"
"spark.sql.adaptive.enabled" = "false"
"spark.databricks.delta.snapshotPartitions" = "2"
"spark.eventLog.enabled" = "true"
"spark.eventLog.rolling.enabled" = "false"
"spark.eventLog.compress" = "false"
"spark.eventLog.dir" = "{events}"
"""


def test_views_are_right_by_headwater_and_by_spark_submit_and_when_executors_are_killed(
    tmp_path: Path, kafka: str, redis_server: str, source_name: str, guardian: Guardian
) -> None:
    """Twice a batch that executors write, of both views at once. In the second one executor is
    killed when part of its rows are in the store, and then the other one, too."""
    log, events, file = Log(kafka, source_name), tmp_path / "events", tmp_path / "headwater.toml"
    events.mkdir()
    log.describe(V1)
    log.write(*(v1(1, i, row(i, "first")) for i in range(ROWS)))
    arguments = ["--config", str(file), "apply", "--available-now"]
    views = _Views(tmp_path / "lake", redis_server, source_name)

    with standalone(tmp_path, guardian) as cluster, proxied(redis_server) as (url, proxy):
        settings = {"source": source_name, "kafka": kafka, "redis": url}
        file.write_text(_CONFIG.format(**settings, events=events.as_uri()))
        with _running(tmp_path, *_HEADWATER, *arguments, "--master", cluster.url):
            pass
        expected = dict.fromkeys(range(ROWS), "first")
        assert views.cached() == views.in_lake() == expected
        work = _Work.read(events)
        assert work.ended.keys() == work.python.keys() == {"0", "1"}, work
        assert work.failed == 0, work

        log.write(*(v1(2, i, row(i, "confidential"), "u") for i in range(1, ROWS)))
        given = ("--master", cluster.url, "--jars", ",".join(map(str, jars("spark"))))
        with _running(tmp_path, _SUBMIT, *given, _SCRIPT, *arguments) as process:
            _kill_while_they_write(process, cluster, proxy, views)
        expected |= dict.fromkeys(range(1, ROWS), "confidential")
        assert views.cached() == views.in_lake() == expected
        work = _Work.read(events)
        assert work.ended.keys() >= {"0", "1"}, work
        assert work.python.total(), work
        assert work.removed >= 2, work
        assert work.failed, work


def test_a_master_that_is_none_or_is_not_ours_to_choose_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text(
        _CONFIG.format(source="s", kafka="127.0.0.1:9", redis="redis://localhost", events="-")
    )
    arguments = ["--config", str(file), "apply"]
    said = _refused(1, *_HEADWATER, *arguments, "--master", "nowhere")
    assert said.startswith("Spark does not start with the master nowhere: ")
    said = _refused(1, *_HEADWATER, *arguments, "--master", "spark://127.0.0.1:1")
    assert said.startswith("no Spark master answers at 127.0.0.1:1: Connection refused: start it")
    said = _refused(2, _SUBMIT, _SCRIPT, *arguments, "--master", "local[1]")
    assert said.startswith("--master is chosen by spark-submit")


def _environ() -> dict[str, str]:
    return {**LOCAL, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def _refused(code: int, *command: str) -> str:
    """The one line that a command says."""
    done = subprocess.run(
        command, env=_environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert "Traceback" not in said
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    return line.removeprefix("error: ")


@contextmanager
def _running(home: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command beside the block, and then to its end, which has to be a good one."""
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=_environ(), stdout=out, stderr=out)
    try:
        yield process
        code = process.wait(LIMIT_S)
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert code == 0, said
    assert "confidential" not in said, said


class _Views:
    """As people read them."""

    def __init__(self, lake: Path, address: str, source: str) -> None:
        self._lake, self._source = lake, source
        self._redis: Any = redis.Redis.from_url(address, decode_responses=True)

    def cached(self, step: int = 1) -> dict[int, str]:
        """All rows, or each so many-th."""
        live = self._redis.get(f"{self._source}_cache@live")
        pipeline = self._redis.pipeline(transaction=False)
        for i in range(0, ROWS, step):
            pipeline.hget(f"{live}:{i}", "doc")
        found = (json.loads(doc) for doc in pipeline.execute() if doc is not None)
        return {one["id"]: one["body"] for one in found}

    def confidential(self) -> int:
        """How many of some rows are as the second batch has them."""
        return Counter(self.cached(step=20).values())["confidential"]

    def in_lake(self) -> dict[int, str]:
        table = DeltaTable(self._lake / f"{self._source}_lake")
        found = QueryBuilder().register("v", table).execute("select id, body from v").read_all()
        return {one["id"]: one["body"] for one in pa.table(found).to_pylist()}


def _kill_while_they_write(
    process: subprocess.Popen[bytes], cluster: Cluster, proxy: Proxy, views: _Views
) -> None:
    """``kill -9`` of one executor, and a little later of the other. What they send to Redis takes
    its time, so that it is some of the rows that are there."""
    proxy.slow(0.2)
    before = 0
    for worker in range(2):

        def more(known: int = before) -> int:
            assert process.poll() is None, "it has ended"
            found = views.confidential()
            return found if found > known else 0

        before = wait_until(more, "rows that an executor has written", LIMIT_S)
        assert before < ROWS / 20 - 1, "all of it was written"
        for executor in cluster.executors(worker):
            kill(executor)
    proxy.release()


class _Work(NamedTuple):
    """What executors did of an application."""

    ended: Counter[str]
    """Tasks, by executor."""
    python: Counter[str]
    """Bytes that went to Python workers, by executor."""
    failed: int
    removed: int

    @classmethod
    def read(cls, events: Path) -> _Work:
        """From Spark's log of events, which is deleted."""
        (file,) = events.iterdir()
        ended, python = Counter[str](), Counter[str]()
        failed = removed = 0
        for line in file.read_text().splitlines():
            found = json.loads(line)
            removed += found["Event"] == "SparkListenerExecutorRemoved"
            if found["Event"] != "SparkListenerTaskEnd":
                continue
            task = found["Task Info"]
            failed += task["Failed"]
            ended[task["Executor ID"]] += 1
            for one in task["Accumulables"]:
                if one["Name"] == "data sent to Python workers":
                    python[task["Executor ID"]] += int(one["Update"])
        file.unlink()
        return cls(ended, python, failed, removed)
