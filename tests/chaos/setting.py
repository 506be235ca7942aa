"""The servers of a run, with a proxy before each for capture alone, and a source for each seed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psycopg

from stack import servers
from stack.guardian import Guardian
from stack.ports import HOST, free_port
from stack.postgres import MAJOR, NEWEST
from tests.proxy import Proxy

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
    # After a kill -9 the controller lets the broker back in when its session has ended.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXY:PLAINTEXT",
}


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
def settings(home: Path, majors: Iterable[str]) -> Iterator[dict[str, Setting]]:
    """``setting`` with one PostgreSQL of each of these versions, by version, and one Kafka."""
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
        bootstrap = _start(opened, home, "kafka", "kafka", wanted).kafka_bootstrap
        kafka = Proxy(before_kafka, listener)
        opened.callback(kafka.close)
        found = {}
        for major in majors:
            wanted = {**POSTGRES, MAJOR: major}
            dsn = _start(opened, home, major, "postgres", wanted).postgres_dsn
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
            )
        yield found


def _home(home: Path, name: str) -> Path:
    return home / f"servers-{name}"


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
