"""The folder in which a demo runs: servers, logs, stores and ``headwater.toml`` of one run.

A new run starts from nothing: what the last one left in the folder is removed. Only a folder
that a demo made is cleared, and in it only what a demo makes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from cdc.errors import UsageError
from cdc.source.errors import translated
from cdc.source.postgres import connect
from demo.environment import MARK, SOURCE, Addresses, config
from stack import servers
from stack.guardian import Guardian

_CONFIG = "headwater.toml"
_OURS = ("lake", "views", "logs")


class Home:
    """A demo's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.guardian = Guardian()
        self.addresses: Addresses | None = None
        self._servers = self.path / "servers"

    @property
    def config_path(self) -> Path:
        return self.path / _CONFIG

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name.replace(' ', '-')}.log"

    def clear(self) -> None:
        """Make the folder new. Raises ``UsageError`` when somebody else's files are in it."""
        if self.path.is_dir() and any(self.path.iterdir()) and not self._ours():
            raise UsageError(
                f"{self.path} holds files that are not a demo's", "name another folder with --home"
            )
        servers.purge(self._servers)
        for name in _OURS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(f"{MARK}\n", encoding="utf-8")
        self.log("").parent.mkdir()

    def start_servers(self, notice: Callable[[str, str], None]) -> Addresses:
        """Start the four servers, create the database, write ``headwater.toml``."""
        self.guardian.stop(self._servers)
        found = servers.start(self._servers, notice=notice)
        with connect(found.postgres_dsn) as connection, translated("creating the database"):
            connection.execute(f"create database {SOURCE}".encode())
        dsn = urlsplit(found.postgres_dsn)._replace(path=f"/{SOURCE}").geturl()
        addresses = Addresses(dsn, found.kafka_bootstrap, found.opensearch_url, found.redis_url)
        self.config_path.write_text(config(addresses), encoding="utf-8")
        self.addresses = addresses
        return addresses

    def stop_servers(self) -> None:
        servers.stop(self._servers)

    def _ours(self) -> bool:
        try:
            return self.config_path.read_text(encoding="utf-8").startswith(MARK)
        except FileNotFoundError:
            return False
