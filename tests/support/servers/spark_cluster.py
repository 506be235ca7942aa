"""A real standalone cluster of Spark: a master and two workers of one core, from our packages."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from stack.guardian import Guardian
from stack.process import Process, descendants, kill, spawn
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
HOME = Path(pyspark.__file__).parent
LOCAL = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
"""The environment of whoever has to do with it."""
_DAEMON = {
    **LOCAL,
    "PYTHONPATH": str(ROOT),  # as installed on every worker
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it has a port of its own
    "SPARK_DAEMON_MEMORY": "128m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SECRET = "of-the-cluster"
"""What who has to do with it proves itself by."""
_DEFAULTS = f"""
spark.authenticate true
spark.authenticate.secret {SECRET}
spark.network.crypto.enabled true
"""
_PLACES = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Cluster(NamedTuple):
    """One that runs."""

    url: str
    workers: Sequence[Process]

    def executors(self, worker: int) -> list[Process]:
        """The executors that a worker has started and that run."""
        below = descendants(self.workers[worker].pid)
        return [one for one in below if _EXECUTOR in _command(one.pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@contextmanager
def standalone(
    directory: Path, guardian: Guardian, environ: Mapping[str, str], workers: int = 2
) -> Iterator[Cluster]:
    """A cluster until the block ends. Executors' folders are below ``directory``, and they have
    ``environ`` in their environment."""
    started: list[Process] = []
    settings = directory / "spark-conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(_DEFAULTS, encoding="utf-8")
    inherited = {**_DAEMON, **environ, "SPARK_CONF_DIR": str(settings)}

    def start(name: str, kind: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        spark_class, daemon = str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"
        process = spawn([spark_class, daemon, *_PLACES, *arguments], log, directory, inherited)
        started.append(process)
        guardian.end(process.pid)
        return log

    try:
        master = start("master", "master.Master")
        (url,) = wait_until(lambda: _AT.findall(master.read_text()), "Spark's master")
        for i in range(workers):
            work = str(directory / f"worker-{i}")
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", work)
            start(f"worker-{i}", "worker.Worker", *limits, url)
        wait_until(lambda: master.read_text().count("Registering worker") >= workers, "workers")
        yield Cluster(url, started[1:])
    finally:
        for process in reversed(started):
            kill(process)
