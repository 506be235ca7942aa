"""The servers of a run, with a proxy before each for capture alone, and a source for each seed."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from stack import servers
from stack.guardian import Guardian
from stack.ports import HOST, free_port
from stack.postgres import MAJOR, NEWEST
from tests.chaos.servers.stores import Stores, running
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.proxy import Proxy

POSTGRES: Final[Mapping[str, str]] = {
    # Processes are killed, never the machine: what was handed to the system is durable.
    "fsync": "off",
    "max_prepared_transactions": "20",
    "deadlock_timeout": "100ms",
    "lock_timeout": "2s",
    # A capture that is stalled or stopped for longer is thrown out.
    "wal_sender_timeout": "3s",
    "restart_after_crash": "off",
}
_KAFKA: Final[Mapping[str, str]] = {
    # As by default, though after a kill -9 the controller lets the broker back in only when its
    # session has ended: one that is shut out for want of breath, and let in again at once, may
    # leave a partition of its groups without a coordinator for good.
    "broker.session.timeout.ms": "9000",
    # Also how long it waits for the controller: on a busy machine it would else never get in.
    "broker.heartbeat.interval.ms": "2000",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:PLAINTEXT",
}

JVM: Final[Mapping[str, str]] = {
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
}
"""Spark lives for a minute: its second compiler would be half of the CPU that it takes."""
_DROP_S: Final = 60.0
"""For a server process that is ended to let go of its slot."""


class Setting(NamedTuple):
    """Servers that run. Clients use ``postgres_dsn`` and ``bootstrap``, capture the proxies."""

    home: Path
    major: str
    postgres_dsn: str
    bootstrap: str
    postgres: Proxy
    kafka: Proxy
    proxied_dsn: str
    proxied_bootstrap: str
    guardian: Guardian
    stores: Stores | None = None
    """That views are kept in."""
    jvm: Lender | None = None
    """Of Spark, for each ``headwater apply`` that has none of its own."""

    def restart(self, name: str) -> None:
        """Bring a killed server back."""
        servers.start(self._of(name), [name])

    def kill(self, name: str) -> None:
        """``kill -9`` of a server and all its processes."""
        servers.kill(self._of(name), name)

    def _of(self, name: str) -> Path:
        return _home(self.home, self.major if name == "postgres" else name)


@contextmanager
def setting(home: Path) -> Iterator[Setting]:
    """New servers below ``home``, gone at the end; what the last run left there goes first."""
    with settings(home, [NEWEST]) as found:
        yield found[NEWEST]


@contextmanager
def settings(
    home: Path, majors: Iterable[str], stores: bool = False, jvm: Lender | None = None
) -> Iterator[dict[str, Setting]]:
    """``setting`` with one PostgreSQL of each of these versions, by version, one Kafka, and with
    ``stores`` those; ``jvm`` is lent."""
    guardian, home = Guardian(), home.resolve()
    for left in home.glob(_home(home, "*").name):
        servers.purge(left)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    guardian.purge(home)
    with ExitStack() as opened:
        opened.callback(guardian.release)
        listener, before_kafka = _ports(2)
        wanted = {
            **_KAFKA,
            "listeners": f"PROXY://{HOST}:{listener}",
            "advertised.listeners": f"PROXY://{HOST}:{before_kafka}",
        }
        sources = {major: {**POSTGRES, MAJOR: major} for major in majors}
        with ThreadPoolExecutor() as pool:  # each waits most of the time
            begun = pool.submit(_start, opened, home, "kafka", "kafka", wanted)
            places = pool.submit(_stores, opened, home) if stores else None
            starts = {
                major: pool.submit(_start, opened, home, major, "postgres", settings)
                for major, settings in sources.items()
            }
        bootstrap, kept = begun.result().kafka_bootstrap, places.result() if places else None
        kafka = Proxy(before_kafka, listener)
        opened.callback(kafka.close)
        found = {}
        for major, start in starts.items():
            dsn = start.result().postgres_dsn
            port = urlsplit(dsn).port or 5432
            (before,) = _ports(1)
            postgres = Proxy(before, port)
            opened.callback(postgres.close)
            found[major] = Setting(
                home,
                major,
                dsn,
                bootstrap,
                postgres,
                kafka,
                dsn.replace(f":{port}/", f":{before}/"),
                f"{HOST}:{before_kafka}",
                guardian,
                kept,
                jvm,
            )
        yield found


def _home(home: Path, name: str) -> Path:
    return home / f"servers-{name}"


def _stores(opened: ExitStack, home: Path) -> Stores:
    return opened.enter_context(running(_home(home, "stores")))


def _start(
    opened: ExitStack, home: Path, name: str, server: str, wanted: Mapping[str, str]
) -> servers.Endpoints:
    place = _home(home, name)
    opened.callback(servers.purge, place)
    return servers.start(place, [server], {server: wanted})


def _ports(count: int) -> list[int]:
    taken: set[int] = set()
    while len(taken) < count:
        taken.add(free_port(taken))
    return list(taken)


def database(dsn: str, name: str) -> str:
    """The DSN of another database of the same server."""
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


def connect(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    """A connection of the run's own."""
    return psycopg.connect(dsn, autocommit=True, connect_timeout=10)


def drop_database(conn: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    """A database with the slots in it, whoever reads them."""
    deadline = time.monotonic() + _DROP_S
    while True:
        conn.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots"
            " where database = %s and active_pid is not null",
            (name,),
        )
        try:
            conn.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = %s",
                (name,),
            )
            break
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            threading.Event().wait(0.05)
    conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
