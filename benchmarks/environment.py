"""Where benchmarks run: servers of their own, a table, and one source for each run.

<home>/servers/     PostgreSQL and Kafka, new for every run, deleted after a good one
<home>/<name>.toml  the configuration of one source, as a user would write it
<home>/logs/        what the measured commands said
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from benchmarks.capture.shapes import Shape
from benchmarks.report.metrics import ROWS
from cdc.errors import FatalError
from cdc.lsn import parse_lsn
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from jobs.spark.jars import locked
from stack import servers
from stack.child_process import run, tail
from stack.guardian import Guardian
from stack.jvm import JVM_OPTIONS
from stack.postgres import client_binaries

Watch = Callable[[str, float], None]
"""Hears what is being done, and which part of it is done (0 to 1)."""

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    # Checkpoints come when a measurement begins, not at random in the middle of one.
    "postgres": {"max_wal_size": "8GB", "checkpoint_timeout": "30min"},
    # Nor is its file written anew meanwhile, each time that it has become twice as large.
    "redis": {"auto-aof-rewrite-percentage": "0"},
    # As their vendors ship them: the servers of `headwater up` do without the second compiler.
    "kafka": {JVM_OPTIONS: "-XX:+UseG1GC"},
    "opensearch": {JVM_OPTIONS: "-XX:+UseG1GC"},
}
_DATABASE: Final = "bench"
_SINGLE_ROWS: Final = 10_000
"""Transactions of one row that are sent together."""
_INIT_TIMEOUT_S: Final = 300.0


class Setting(NamedTuple):
    """Servers that run, and who watches. ``rows`` is the size of what is measured: with fewer
    than ``ROWS`` it is a trial, which is shorter in everything."""

    home: Path
    dsn: str
    bootstrap: str
    rows: int
    watch: Watch
    guardian: Guardian

    def connect(self) -> Connection:
        return connect(self.dsn, application_name="headwater bench")

    def config(self, source: str) -> Path:
        return self.home / f"{source}.toml"

    def log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def scaled(self, full: int, least: int) -> int:
        """Of what a full measurement has ``full`` of (rows, seconds), this one's part."""
        return max(least, round(full * self.rows / ROWS))


def servers_home(home: Path) -> Path:
    """The folder of the benchmarks' own servers."""
    return home / "servers"


def clear(home: Path) -> None:
    """Delete what a run left that was cut off: its servers, and what it noted of views, which is
    not true of new stores."""
    servers.purge(servers_home(home))
    for pattern in ("logs", "lake", "views*", "idle-*"):
        for folder in home.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
    (home / "logs").mkdir(parents=True)


def open_setting(home: Path, rows: int, watch: Watch, guardian: Guardian) -> Setting:
    """New servers and an empty database. What the last run left is deleted."""
    watch("starting servers", 0)
    home = home.resolve()
    clear(home)
    guardian.stop(servers_home(home))
    found = servers.start(servers_home(home), ["postgres", "kafka"], SETTINGS)
    with connect(found.postgres_dsn) as conn, translated("creating the database"):
        conn.execute(f"create database {_DATABASE}".encode())
    dsn = urlsplit(found.postgres_dsn)._replace(path=f"/{_DATABASE}").geturl()
    return Setting(home, dsn, found.kafka_bootstrap, rows, watch, guardian)


def server_versions() -> dict[str, str]:
    """Of the servers that ``headwater up`` starts, and of Debezium."""
    postgres = subprocess.run(
        [client_binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    return {
        "postgresql_version": postgres.stdout.split()[-1],
        "kafka_version": _locked_version("kafka", ":kafka_2"),
        "debezium_version": _locked_version("debezium", ":debezium-connector-postgres:"),
    }


def _locked_version(set_name: str, artifact: str) -> str:
    found = next(jar.coordinate for jar in locked(set_name) if artifact in jar.coordinate)
    return found.rpartition(":")[2]


def create_table(conn: Connection, shape: Shape, table: str) -> None:
    """An empty table."""
    with translated(f"creating {table}"):
        conn.execute(shape.create(table))


def load(
    setting: Setting, conn: Connection, shape: Shape, table: str, rows: int, transaction_rows: int
) -> int:
    """Insert the rows, in transactions of so many; the LSN where the last one ends.

    Nothing else waits for these commits, so none of them waits for the disk.
    """
    step = transaction_rows if transaction_rows > 1 else _SINGLE_ROWS
    shown_at = 0.0
    with translated(f"loading {table}"):
        conn.execute("set synchronous_commit = off")
        for start in range(1, rows + 1, step):
            end = min(rows, start + step - 1)
            conn.execute(
                shape.insert(table, start, end)
                if transaction_rows > 1
                else _one_by_one(shape, table, start, end)
            )
            if time.monotonic() > shown_at:
                setting.watch(f"loading {table}", end / rows)
                shown_at = time.monotonic() + 0.1
        conn.execute("reset synchronous_commit")
    target = _wal_end(conn)
    checkpoint(conn)  # which also flushes the WAL
    return target


def _one_by_one(shape: Shape, table: str, start: int, end: int) -> bytes:
    """A block that commits every row by itself: a client would take ten times as long."""
    insert = shape.insert(table, "k", "k").decode()
    return (f"do $$ begin for k in {start}..{end} loop {insert}; commit; end loop; end $$").encode()


def drop_table(conn: Connection, table: str) -> None:
    """What was measured leaves the disk."""
    with translated(f"dropping {table}"):
        conn.execute(f"drop table public.{table}".encode())


def checkpoint(conn: Connection) -> None:
    """Dirty pages go to disk now, not while something is measured."""
    with translated("checkpoint"):
        conn.execute("checkpoint")


def settle(conn: Connection, table: str) -> None:
    """A table that was loaded is vacuumed and on disk before something is measured."""
    with translated("vacuum"):
        conn.execute(f"vacuum analyze public.{table}".encode())
    checkpoint(conn)


def headwater(
    setting: Setting,
    source: str,
    *arguments: str,
    log: str,
    timeout_s: float,
    on_wait: Callable[[int], None] = lambda _pid: None,
) -> str:
    """A command on a source to its end; what it printed. ``on_wait`` hears its pid several times a
    second. Raises ``FatalError``."""
    what, file = f"headwater {' '.join(arguments)} of {source}", setting.log(log)
    setting.watch(what, 0)
    command = ["--config", str(setting.config(source)), *arguments]
    code, output = run(what, command, file, timeout_s, on_wait)
    if code:
        raise FatalError(f"{what} ended with exit code {code}\n{tail(file)}")
    return output


def init_source(
    setting: Setting,
    source: str,
    table: str,
    *options: str,
    events: str = "",
    on_wait: Callable[[int], None] = lambda _pid: None,
) -> None:
    """``headwater init`` of a source that captures one table, with these lines of ``[events]``;
    ``on_wait`` hears its pid several times a second. Raises ``FatalError``."""
    setting.config(source).write_text(
        f'[source]\nname = "{source}"\ndsn = "{setting.dsn}"\ntables = ["public.{table}"]\n'
        f'\n[kafka]\nbootstrap_servers = "{setting.bootstrap}"\n'
        + (f"\n[events]\n{events}" if events else ""),
        encoding="utf-8",
    )
    headwater(
        setting,
        source,
        "init",
        *options,
        log=f"init-{source}",
        timeout_s=_INIT_TIMEOUT_S,
        on_wait=on_wait,
    )


def _wal_end(conn: Connection) -> int:
    """Where the WAL ends now, flushed or not, as an LSN."""
    with translated("reading the WAL position"):
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])
