"""The stores of a run: an OpenSearch, a Redis and a PostgreSQL of its own, a folder for Delta.
``headwater apply`` reaches each server through a proxy, the checks go past it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import opensearchpy
import psycopg
import redis

from stack import servers
from stack.jvm import FAST_START, JVM_OPTIONS
from tests.support.servers.proxy import Proxy, proxied

SERVED: Final = ("opensearch", "redis", "postgres")
"""Stores that are servers, so that they can be killed, cut and stalled."""
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    # After a kill it applies its log to indexes anew, while apply sends more.
    "opensearch": {JVM_OPTIONS: f"{FAST_START} -Xmx1g"},
    # What it has acknowledged is in its file: by default it may be so up to two seconds later.
    "redis": {"appendfsync": "always"},
    # Processes are killed, never the machine: what was handed to the system is durable.
    "postgres": {"fsync": "off", "restart_after_crash": "off"},
}


class OwnServer(NamedTuple):
    """A PostgreSQL for state databases that apply does not start itself."""

    home: Path
    direct: str
    proxied: str
    proxy: Proxy

    def kill(self) -> None:
        """``kill -9`` of the server and all its processes."""
        servers.kill(self.home, "postgres")

    def restart(self) -> None:
        """Bring it back, if it was killed."""
        servers.start(self.home, ["postgres"])


class Stores(NamedTuple):
    """Servers that run. ``direct`` and ``proxied`` are addresses, by kind of store."""

    home: Path
    direct: Mapping[str, str]
    proxied: Mapping[str, str]
    proxies: Mapping[str, Proxy]
    state: OwnServer

    def kill(self, store: str) -> None:
        """``kill -9`` of a server and all its processes."""
        servers.kill(self.home, store)

    def restart(self, store: str) -> None:
        """Bring a killed server back."""
        servers.start(self.home, [store])

    def recover(self) -> None:
        """All of them run, and nothing is between them and ``headwater apply``."""
        for proxy in self.proxies.values():
            proxy.release()
        servers.start(self.home, SERVED)

    def toml(self, source: str, folder: Path) -> str:
        """The [stores] of a seed: a database and a folder of its own, the rest by names."""
        dsn = urlsplit(self.proxied["postgres"])._replace(path=f"/{source}").geturl()
        return (
            f'[stores.opensearch]\nkind = "opensearch"\nurl = "{self.proxied["opensearch"]}"\n'
            f'[stores.redis]\nkind = "redis"\nurl = "{self.proxied["redis"]}"\n'
            f'[stores.postgres]\nkind = "postgres"\ndsn = "{dsn}"\n'
            f'[stores.delta]\nkind = "delta"\npath = "{folder / "lake"}"\n'
        )

    def prepare(self, source: str) -> None:
        """A database for the views of a seed."""
        self._execute(f'create database "{source}"')

    def clear(self, source: str) -> None:
        """Nothing of a seed is left, but for its folder."""
        self._execute(f'drop database if exists "{source}" with (force)')
        with opensearchpy.OpenSearch(hosts=[self.direct["opensearch"]]) as search:
            search.indices.delete(index=f"{source}*")
        client: Any = redis.Redis.from_url(self.direct["redis"])
        with client:
            client.flushdb()

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.direct["postgres"], autocommit=True) as conn:
            conn.execute(statement.encode())


@contextmanager
def running(home: Path) -> Iterator[Stores]:
    """New servers below ``home``, gone at the end."""
    with ExitStack() as opened:
        opened.callback(servers.purge, home)
        with ThreadPoolExecutor(1) as pool:
            beside = home.with_name(f"{home.name}-state")
            state = pool.submit(opened.enter_context, _own_server(beside))
            found = servers.start(home, SERVED, _SETTINGS)
        through = {name: opened.enter_context(proxied(found.addresses[name])) for name in SERVED}
        yield Stores(
            home,
            found.addresses,
            {name: url for name, (url, _) in through.items()},
            {name: proxy for name, (_, proxy) in through.items()},
            state.result(),
        )


@contextmanager
def _own_server(home: Path) -> Iterator[OwnServer]:
    with ExitStack() as opened:
        opened.callback(servers.purge, home)
        address = servers.start(home, ["postgres"], _SETTINGS).addresses["postgres"]
        proxied_address, proxy = opened.enter_context(proxied(address))
        yield OwnServer(home, address, proxied_address, proxy)
