"""The servers of a run, with a proxy before each for capture alone, and a source for each seed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psycopg

from stack import servers
from stack.guardian import Guardian
from stack.ports import HOST, free_port
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
    postgres_dsn: str
    bootstrap: str
    postgres: Proxy
    kafka: Proxy
    proxied_dsn: str
    proxied_bootstrap: str
    guardian: Guardian

    @property
    def stack(self) -> Path:
        """The home of the servers."""
        return self.home / "servers"

    def restart(self, name: str) -> None:
        """Bring a killed server back."""
        servers.start(self.stack, [name])

    def kill(self, name: str) -> None:
        """``kill -9`` of a server and all its processes."""
        servers.kill(self.stack, name)


@contextmanager
def setting(home: Path) -> Iterator[Setting]:
    """New servers below ``home``, gone at the end; what the last run left there goes first."""
    guardian = Guardian()
    home = home.resolve()
    stack = home / "servers"
    servers.purge(stack)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    guardian.purge(stack)
    listener, before_kafka, before_postgres = _ports(3)
    kafka_settings = {
        **_KAFKA,
        "listeners": f"PROXY://{HOST}:{listener}",
        "advertised.listeners": f"PROXY://{HOST}:{before_kafka}",
    }
    try:
        found = servers.start(
            stack, ["postgres", "kafka"], {"postgres": POSTGRES, "kafka": kafka_settings}
        )
        port = urlsplit(found.postgres_dsn).port or 5432
        postgres, kafka = Proxy(before_postgres, port), Proxy(before_kafka, listener)
        proxied = found.postgres_dsn.replace(f":{port}/", f":{before_postgres}/")
        yield Setting(
            home,
            found.postgres_dsn,
            found.kafka_bootstrap,
            postgres,
            kafka,
            proxied,
            f"{HOST}:{before_kafka}",
            guardian,
        )
        postgres.close()
        kafka.close()
    finally:
        servers.purge(stack)
        guardian.release()


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
