"""Views kept by a standalone cluster, ``engine = "delta"``: by ``headwater apply --master`` and by
plain ``spark-submit``. The home of what is promised of that engine: a view of one table by each
way to write, a join, groups and a history are equal to their SQL, also when executors are killed.
The Delta tables are in S3, whose credentials driver and executors have by web identity, as in a pod
on EKS."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs.batch.thresholds import FEW_ROWS
from jobs.spark.jars import jars
from stack.guardian import Guardian
from stack.process import descendants, kill, send
from stack.servers import Endpoints
from tests.support.commands.clustered_views import SHOP_VIEWS, STORES, clustered
from tests.support.commands.deployment import Deployment
from tests.support.commands.executor_work import Kept, Work, every_store
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.proxy import Proxy, proxied
from tests.support.servers.s3 import S3, s3_in
from tests.support.servers.spark_cluster import HOME, LOCAL, ROOT, Cluster, standalone
from tests.support.servers.web_identity import rights_in, web_identity
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = FEW_ROWS + 2_000
"""Of a batch: executors write its rows, from Python, not the driver."""
SECRET = "confidential"
"""In the bodies of later batches. No log may have it."""
ATTEMPTS = 5
"""A kill may come when the last task has just ended."""
LIMIT_S = 900.0
_BUCKET = "clustered"
"""No other test has a bucket of this name: a JVM that is lent remembers where each is."""
_HEADWATER = (sys.executable, "-c", "from headwater.cli.app import main; main()")
_SUBMIT = str(HOME / "bin" / "spark-submit")
_SCRIPT = str(ROOT / "headwater" / "submit.py")
_SHOP = (
    "create table customers (id int primary key, name text not null)",
    "insert into customers select i, 'c' || i from generate_series(1, 40) i",
    "create table orders (id int primary key, customer int, total numeric(8,2))",
    "insert into orders select i, 1 + i % 50, i from generate_series(1, 400) i",
)
_MEANWHILE = (
    "update customers set name = name || '.' where id % 7 = 1",
    "update orders set customer = 1 + (customer + 3) % 50, total = total + 1 where id % 3 = 0",
    "delete from orders where id = (select max(id) from orders)",
)
"""Of each batch that is killed."""


@contextmanager
def _slowed(direct: Mapping[str, str]) -> Iterator[tuple[dict[str, str], list[Proxy]]]:
    """The addresses of servers behind proxies, which can be slowed."""
    with ExitStack() as opened:
        behind = {name: opened.enter_context(proxied(at)) for name, at in direct.items()}
        addresses = {name: address for name, (address, _) in behind.items()}
        yield addresses, [proxy for _, proxy in behind.values()]


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize(
    ("kinds", "killed"),
    [
        (("redis", "delta"), ()),  # written by Python on executors, and by Spark's Java
        pytest.param(STORES, STORES, marks=pytest.mark.exhaustive),
    ],
    ids=["", "all"],
)
def test_views_are_right_by_headwater_and_by_spark_submit_and_when_executors_are_killed(
    kinds: tuple[str, ...],
    killed: tuple[str, ...],
    tmp_path: Path,
    servers: Endpoints,
    deployment: Deployment,
    store_database: str,
    guardian: Guardian,
    spark: SparkSession,
    lender: Lender,
) -> None:
    """Stores by both. Of those that are ``killed``, all executors are killed when part of what they
    write of a batch is there; the suite has that of Spark's Python (``test_kills``, where is how
    each store stands it, too)."""
    source, events = deployment.name, tmp_path / "events"
    events.mkdir()
    arguments = ["--config", str(deployment.config), "apply"]
    search, cache = servers.opensearch_url, servers.redis_url
    direct = {"redis": cache, "opensearch": search, "postgres": store_database}
    every = every_store(source, direct, tmp_path / "buckets" / _BUCKET)
    stores = {kind: every[kind] for kind in kinds}
    deployment.execute(*_SHOP, *_filled(stores))
    deployment.init()

    with (
        web_identity(tmp_path / "iam", guardian, rights_in(_BUCKET)) as identity,
        s3_in(tmp_path, guardian, identity.socket) as s3,
        standalone(tmp_path, guardian, identity.environ("executor")) as cluster,
        _slowed(direct) as (addresses, proxies),
        deployment.running("capture"),
    ):
        lake, environ = s3.bucket(_BUCKET), identity.environ("driver")
        _reached(spark, s3)
        deployment.extra = clustered(
            source, kinds, events=events.as_uri(), lake=lake, s3=s3.url, **addresses
        )
        deployment.write()
        once = ("--available-now", "--master", cluster.url)
        with _running(tmp_path, environ, *_HEADWATER, *arguments, *once):
            pass
        _assert_first(stores, events)
        given = ("--master", cluster.url, "--jars", ",".join(map(str, jars("spark"))))
        unmoved = [of for name, of in stores.items() if name not in killed]
        _change(deployment, unmoved)
        ending = () if killed else ("--available-now",)
        command = (_SUBMIT, *given, _SCRIPT, *arguments, *ending)
        with _running(tmp_path, environ, *command) as process:
            _until_changed(unmoved)
            for name in killed:
                view, store = f"{source}_{name}", stores[name]
                _until_tasks_failed(process, cluster, deployment, store, proxies, events, view)
            deployment.jvm = lender
            for view in SHOP_VIEWS:
                done = deployment.run("verify", f"{source}_{view}", "--timeout", "300")
                assert done.returncode == 0, done.stdout + done.stderr
                assert "equal at LSN" in done.stdout
            if killed:
                for driver in descendants(process.pid):  # Java is the one that was started
                    send(driver, signal.SIGTERM)
        assert identity.sessions() == {"driver", "executor"}
        work = Work.read(events)
        assert work.ended.keys() >= {"0", "1"}, work
        assert work.python.total(), work
        assert work.removed >= len(cluster.workers) * len(killed), work


def test_a_master_that_is_none_or_is_not_ours_to_choose_is_a_line(tmp_path: Path) -> None:
    stores = {"redis": "redis://nobody", "opensearch": "http://nobody", "postgres": "dbname=no"}
    extra = clustered("s", STORES, events="-", lake="./lake", s3="http://nobody", **stores)
    deployment = Deployment(tmp_path, "s", "dbname=unused", "127.0.0.1:9", extra=extra)
    deployment.write()
    arguments = ["--config", str(deployment.config), "apply"]
    said = _refused(1, *_HEADWATER, *arguments, "--master", "nowhere")
    assert said.startswith("Spark does not start with the master nowhere: ")
    said = _refused(1, *_HEADWATER, *arguments, "--master", "spark://127.0.0.1:1")
    assert said.startswith("no Spark master answers at 127.0.0.1:1: Connection refused")
    said = _refused(2, _SUBMIT, _SCRIPT, *arguments, "--master", "local[1]")
    assert said.startswith("--master cannot be used under spark-submit")


def _filled(stores: Mapping[str, Kept]) -> Iterator[str]:
    """The tables of single views, with their first rows."""
    for store in stores.values():
        yield f"create table {store.table} (id int primary key, body text)"
        yield f"insert into {store.table} select i, 'first' from generate_series(0, {ROWS - 1}) i"


def _assert_first(stores: Mapping[str, Kept], events: Path) -> None:
    """The single views have their first rows, which both executors wrote at the first attempt."""
    expected = dict.fromkeys(range(ROWS), "first")
    for name, store in stores.items():
        assert store.rows() == expected, name
    work = Work.read(events)
    assert work.ended.keys() == work.python.keys() == {"0", "1"}, work
    assert not work.failed.total(), work


def _change(deployment: Deployment, stores: Sequence[Kept]) -> None:
    """Each row of each table, and some of the shop."""
    for store in stores:
        deployment.execute(f"update {store.table} set body = 'changed'")
    deployment.execute(*_MEANWHILE)
    deployment.captured()


def _until_changed(stores: Sequence[Kept]) -> None:
    """Each view is right."""
    changed = dict.fromkeys(range(ROWS), "changed")
    for store in stores:
        wait_until(partial(store.has, changed), f"{store.table} to be right", LIMIT_S)


def _reached(spark: SparkSession, s3: S3) -> None:
    """Tell the JVM that commands borrow how to reach the bucket."""
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    for name, value in {**s3.place, **s3.account}.items():
        hadoop.set(f"fs.s3a.bucket.{_BUCKET}.{name}", value)


def _environ(**more: str) -> dict[str, str]:
    return {**LOCAL, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **more}


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
def _running(
    home: Path, environ: Mapping[str, str], *command: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A command beside the block, and then to its end, which has to be a good one."""
    log = home / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=_environ(**environ), stdout=out, stderr=out)
    try:
        yield process
        code = process.wait(LIMIT_S)
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert code == 0, said
    assert SECRET not in said, said
    assert "ASIA" not in said, said  # as keys of a role begin


def _until_tasks_failed(
    process: subprocess.Popen[bytes],
    cluster: Cluster,
    deployment: Deployment,
    store: Kept,
    proxies: Sequence[Proxy],
    events: Path,
    view: str,
) -> None:
    """Batches whose executors are all killed while they write, until it was in the middle of their
    tasks, and of what readers see. The view is right behind each of them."""
    for number in range(2, 2 + ATTEMPTS):
        for proxy in proxies:
            proxy.slow(0.2)
        body = f"{SECRET} {number}"
        _kill_while_they_write(process, cluster, deployment, store, body)
        seen = Counter(store.rows().values())[body]
        for proxy in proxies:
            proxy.release()
        expected = {0: "first"} | dict.fromkeys(range(1, ROWS), body)
        wait_until(partial(store.has, expected), "the view to be right", LIMIT_S)
        if Work.read(events).failed[view] and seen < ROWS - 1:
            return
    raise AssertionError(f"{view} had all its rows, or no task failed: {Work.read(events)}")


def _kill_while_they_write(
    process: subprocess.Popen[bytes],
    cluster: Cluster,
    deployment: Deployment,
    store: Kept,
    body: str,
) -> None:
    """``kill -9`` of all executors, when part of what they write is there."""
    workers = range(len(cluster.workers))
    wait_until(lambda: all(map(cluster.executors, workers)), "an executor of each worker", LIMIT_S)
    before = store.progress(body)
    with _held(process):
        update = f"update {store.table} set body = '{body}' where id > 0"
        deployment.execute(update, *_MEANWHILE)
        deployment.captured()

    def more() -> bool:
        if process.poll() is not None:
            raise RuntimeError("it has ended")
        return store.progress(body) > before

    wait_until(more, "what an executor has written", LIMIT_S)
    for executor in chain.from_iterable(map(cluster.executors, workers)):
        kill(executor)


@contextmanager
def _held(driver: subprocess.Popen[bytes]) -> Iterator[None]:
    """A driver that does not see what is written until all of it is there: one batch."""
    driver.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        driver.send_signal(signal.SIGCONT)
