"""``docs/runbook.md``: each of its procedures, run as it is written, after the fault it is for."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from stack import servers, state
from stack.postgres import MAJOR, NEWEST, reachable_binaries
from stack.process import as_user, unprivileged_user
from tests.support.commands.deployment import Deployment
from tests.support.commands.runbook import (
    CHANGES,
    SERVICES,
    SHOWN,
    VIEW,
    Runbook,
    procedure,
)
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

TABLES: Final = (
    "create table customers (id int primary key, name text not null)",
    "insert into customers select i, 'c' || i from generate_series(1, 50) i",
    "create table orders (id int primary key, customer int not null, shipped bool not null)",
    "insert into orders select i, 1 + i % 50, false from generate_series(1, 500) i",
)


@pytest.fixture
def runbook(
    tmp_path: Path, source_name: str, kafka: str, redis_server: str, lender: Lender
) -> Iterator[Runbook]:
    """With a source that a backup can be restored over."""
    home = tmp_path / "servers"
    try:
        dsn = servers.start(home, ["postgres"], {"postgres": {MAJOR: "16"}}).postgres_dsn
        extra = f"""
producer = {{ "topic.metadata.propagation.max.ms" = 3000 }}
[stores.cache]
kind = "redis"
url = "{redis_server}"
[apply]
state = "{tmp_path}/state"
retry_s = 5
[views.{source_name}_{VIEW}]
store = "cache"
key = ["id"]
sql = '''{SHOWN}'''
"""
        of = Deployment(tmp_path, source_name, dsn, kafka, extra=extra, jvm=lender)
        of.tables = ("public.orders", "public.customers")
        of.execute(*TABLES)
        of.init()
        made = Runbook(of, tmp_path, redis.Redis.from_url(redis_server, decode_responses=True))
        yield made
        for one in made.running.values():
            one.close()
    finally:
        servers.purge(home)


def slot_is_lost(runbook: Runbook) -> None:
    of = runbook.deployment
    pid = of.slot("active_pid")
    of.execute(
        f"select pg_terminate_backend({pid})",
        f"do $$ begin loop begin perform pg_drop_replication_slot('headwater_{of.name}'); exit;"
        " exception when object_in_use then perform pg_terminate_backend(active_pid) from"
        f" pg_replication_slots where slot_name = 'headwater_{of.name}'; end; end loop; end $$",
        *CHANGES,
    )
    runbook.ended("capture", "init --again")


def backup_is_restored(runbook: Runbook) -> None:
    """As a copy of the server's files of an earlier moment does."""
    of, data = runbook.deployment, Path(state.load(runbook.home / "servers")["postgres"].data)
    backup = data.with_name("backup")
    for service in SERVICES:
        runbook.running.pop(service).close()
    servers.stop(runbook.home / "servers", ["postgres"])
    subprocess.run(["cp", "-a", data, backup], check=True)
    servers.start(runbook.home / "servers", ["postgres"])
    of.execute(*CHANGES)
    runbook.systemctl("start", "headwater-capture", "headwater-apply")
    of.captured(runbook.processes["capture"])
    servers.stop(runbook.home / "servers", ["postgres"])
    shutil.rmtree(data)
    backup.rename(data)
    servers.start(runbook.home / "servers", ["postgres"])
    of.execute("insert into orders select max(id) + 1, 3, false from orders")
    runbook.ended("capture", "init --again")


def source_is_upgraded(runbook: Runbook) -> None:
    """To the newest version, by ``pg_upgrade``; that data has the place of the former."""
    home = runbook.home / "servers"
    data = Path(state.load(home)["postgres"].data) / "data"
    for service in SERVICES:
        runbook.running.pop(service).close()
    servers.stop(home, ["postgres"])
    user, fresh = unprivileged_user(), data.with_name("upgraded")
    before, after = (reachable_binaries(data.parent, user, one) for one in ("16", NEWEST))
    work = data.with_name("work")
    for folder in (fresh, work):
        folder.mkdir(mode=0o700)
        if user is not None:
            os.chown(folder, user.uid, user.gid)

    def run(program: str, *arguments: str | Path) -> None:
        command = [after / program, "-U", "postgres", *arguments]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, **as_user(user))
        assert done.returncode == 0, done.stdout + done.stderr

    run("initdb", "-D", fresh, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-data-checksums")
    places = ("-b", before, "-B", after, "-d", data, "-D", fresh, "-s", work)
    run("pg_upgrade", *places, "-o", "-c wal_level=logical")
    shutil.rmtree(data)
    fresh.rename(data)
    servers.start(home, ["postgres"], {"postgres": {MAJOR: NEWEST}})
    runbook.systemctl("start", "headwater-capture", "headwater-apply")
    runbook.ended("capture", "init --again --moved")
    runbook.ended("apply", "init --again --moved")


def topic_is_lost(runbook: Runbook) -> None:
    from kafka import KafkaAdminClient

    of = runbook.deployment
    admin = KafkaAdminClient(bootstrap_servers=of.bootstrap)
    admin.delete_topics([f"{of.name}.public.orders"])
    admin.close()
    of.execute(*CHANGES)
    runbook.ended("capture", "Unknown partition")
    runbook.ended("apply", f"{of.name}.public.orders")


def source_is_declared(runbook: Runbook) -> None:
    of, name = runbook.deployment, f"{runbook.deployment.name}b"
    of.execute("create database billing")
    dsn = urlsplit(of.dsn)._replace(path="/billing").geturl()
    (runbook.home / name).mkdir()
    runbook.others["billing.toml"] = other = Deployment(
        runbook.home / name, name, dsn, of.bootstrap
    )
    other.execute("create table bills (id int primary key)", "insert into bills values (1)")


def store_is_emptied(runbook: Runbook) -> None:
    said = len(runbook.deployment.log("apply"))
    for key in runbook.cache.scan_iter(f"*{runbook.view}*"):
        runbook.cache.delete(key)
    runbook.deployment.execute(*CHANGES)

    def stopped() -> bool:
        return "view rebuild" in runbook.deployment.log("apply")[said:]

    wait_until(stopped, "the view to stop", 120)


def store_is_restored(runbook: Runbook) -> None:
    """From a backup: it has rows that were deleted since, and lacks others."""
    cache, of = runbook.cache, runbook.deployment
    backup = {
        key: cache.execute_command("DUMP", key, NEVER_DECODE=True)  # type: ignore[no-untyped-call]
        for key in cache.scan_iter(f"*{runbook.view}*")
    }
    of.execute(*CHANGES)
    assert of.run("wait", runbook.view, "--timeout", "120").returncode == 0
    cache.delete(*cache.scan_iter(f"*{runbook.view}*"))
    for key, value in backup.items():
        cache.restore(key, 0, value)


def rows_were_changed_by_hand(runbook: Runbook) -> None:
    runbook.cache.delete(*runbook.rows()[:3])


def state_is_lost(runbook: Runbook) -> None:
    runbook.systemctl("stop", "headwater-apply")
    shutil.rmtree(runbook.home / "state" / runbook.deployment.name)
    runbook.deployment.execute(*CHANGES)


def table_is_declared(runbook: Runbook) -> None:
    of = runbook.deployment
    of.execute("create table invoices (id int primary key, paid bool)")
    of.execute("insert into invoices select i, true from generate_series(1, 100) i")
    of.tables = (*of.tables, "public.invoices")


def topic_is_read(runbook: Runbook) -> None:
    """All of it, by ``is_right``; capture knew as many partitions as it has."""
    assert (
        len(runbook.deployment.newest_mark().offsets[f"{runbook.deployment.name}.public.orders"])
        < 6
    )


FAULTS: Final[tuple[tuple[str, Callable[[Runbook], None]], ...]] = (
    ("Add partitions", topic_is_read),
    ("Add a table", table_is_declared),
    ("Add a source", source_is_declared),
    ("Rows in a store are wrong", rows_were_changed_by_hand),
    ("A store was emptied or replaced", store_is_emptied),
    ("A store was emptied or replaced", store_is_restored),
    ("`apply.state` is lost", state_is_lost),
    ("The replication slot is lost", slot_is_lost),
    ("A topic is lost", topic_is_lost),
    ("The source was restored from a backup", backup_is_restored),
    ("The source was upgraded", source_is_upgraded),
)


def test_the_wal_of_a_source_that_is_idle_advances_each_time(postgres: str) -> None:
    """Else ``init --again`` would never accept a source that nobody writes to."""
    steps = procedure("The source was restored from a backup")
    (sql,) = (shlex.split(command)[2] for command, _ in steps if command.startswith("psql "))
    with psycopg.connect(postgres, autocommit=True) as conn:
        files: list[int] = []
        for _ in range(3):
            conn.execute(sql.encode())
            file = "select (pg_current_wal_lsn() - '0/0')::bigint >> 24"
            files += conn.execute(file.encode()).fetchone() or ()
    assert files[0] < files[1] < files[2]


def test_each_procedure_brings_back_what_its_fault_took(runbook: Runbook) -> None:
    runbook.systemctl("start", "headwater-capture", "headwater-apply")
    runbook.is_right()
    for title, fault in FAULTS:
        fault(runbook)
        runbook.follow(title)
        runbook.is_right()
