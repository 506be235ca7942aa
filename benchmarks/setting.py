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

from cdc.errors import FatalError
from cdc.lsn import parse_lsn
from cdc.postgres import Connection, connect, translated
from demo.processes import run, tail
from stack import servers
from stack.guardian import Guardian
from stack.jars import locked
from stack.postgres import client_binaries

Watch = Callable[[str, float], None]
"""Hears what is being done, and which part of it is done (0 to 1)."""

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    # Checkpoints come when a measurement begins, not at random in the middle of one.
    "postgres": {"max_wal_size": "8GB", "checkpoint_timeout": "30min"},
}
_DATABASE: Final = "bench"
_INIT_TIMEOUT_S: Final = 300.0

# Seven columns, about 270 bytes a change in pgoutput. The note is hexadecimal and has no
# repetition, so no codec makes the events smaller than those of real text.
_CREATE: Final = """
create table public.{table} (
    id bigint primary key,
    customer_id integer not null,
    status text not null,
    total numeric(12, 2) not null,
    note text not null,
    ordered_at timestamptz not null,
    updated_at timestamp not null
)
"""
_INSERT: Final = """
insert into public.{table}
select i, (i * 7919 %% 100003)::int, (array['new', 'paid', 'shipped', 'returned'])[1 + i %% 4],
       (i %% 1000000) / 100.0,
       md5(i::text) || md5((-i)::text) || md5((i + 0.1)::text) || md5((i + 0.2)::text)
           || substr(md5((i + 0.3)::text), 1, 16),
       timestamptz '2026-01-01 00:00:00.123456+00' + i * interval '1 second',
       timestamp '2026-01-01 00:00:00.654321' + i * interval '1 second'
from generate_series(%s::bigint, %s::bigint) as i
"""
COLUMNS: Final = "id, customer_id, status, total, note, ordered_at, updated_at"


class Setting(NamedTuple):
    """Servers that run, and who watches. ``rows`` is the size of what is measured."""

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


def servers_home(home: Path) -> Path:
    """The folder of the benchmarks' own servers."""
    return home / "servers"


def open_setting(home: Path, rows: int, watch: Watch, guardian: Guardian) -> Setting:
    """New servers and an empty database. What the last run left is deleted."""
    watch("starting servers", 0)
    home = home.resolve()
    servers.purge(servers_home(home))
    shutil.rmtree(home / "logs", ignore_errors=True)
    (home / "logs").mkdir(parents=True)
    guardian.stop(servers_home(home))
    found = servers.start(servers_home(home), ["postgres", "kafka"], SETTINGS)
    with connect(found.postgres_dsn) as conn, translated("creating the database"):
        conn.execute(f"create database {_DATABASE}".encode())
    dsn = urlsplit(found.postgres_dsn)._replace(path=f"/{_DATABASE}").geturl()
    return Setting(home, dsn, found.kafka_bootstrap, rows, watch, guardian)


def server_versions() -> dict[str, str]:
    """Of the servers that ``headwater up`` starts."""
    postgres = subprocess.run(
        [client_binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    kafka = next(j.coordinate for j in locked("kafka") if ":kafka_2" in j.coordinate)
    return {
        "postgresql_version": postgres.stdout.split()[-1],
        "kafka_version": kafka.rpartition(":")[2],
    }


def create_table(conn: Connection, table: str) -> None:
    """The table of seven columns, empty."""
    with translated(f"creating {table}"):
        conn.execute(_CREATE.format(table=table).encode())


def load(setting: Setting, conn: Connection, table: str, transaction_rows: int) -> int:
    """Insert the rows, in transactions of so many; the LSN where the last one ends."""
    statement = _INSERT.format(table=table).encode()
    shown_at = 0.0
    with translated(f"loading {table}"):
        for start in range(1, setting.rows + 1, transaction_rows):
            end = min(setting.rows, start + transaction_rows - 1)
            conn.execute(statement, (start, end))
            if time.monotonic() > shown_at:
                setting.watch("loading", end / setting.rows)
                shown_at = time.monotonic() + 0.1
    target = wal_end(conn)
    checkpoint(conn)
    return target


def checkpoint(conn: Connection) -> None:
    """Dirty pages go to disk now, not while something is measured."""
    with translated("checkpoint"):
        conn.execute("checkpoint")


def init_source(setting: Setting, source: str, table: str, *options: str) -> None:
    """``headwater init`` of a source that captures one table. Raises ``FatalError``."""
    setting.config(source).write_text(
        f'[source]\nname = "{source}"\ndsn = "{setting.dsn}"\ntables = ["public.{table}"]\n'
        f'\n[kafka]\nbootstrap_servers = "{setting.bootstrap}"\n',
        encoding="utf-8",
    )
    command = ["--config", str(setting.config(source)), "init", *options]
    log = setting.log(f"init-{source}")
    what = f"headwater init {source}"
    code, _ = run(what, command, log, _INIT_TIMEOUT_S, lambda: setting.watch(what, 0))
    if code:
        raise FatalError(f"{what} ended with exit code {code}\n{tail(log)}")


def wal_end(conn: Connection) -> int:
    """Where the WAL ends now, as an LSN."""
    with translated("reading the WAL position"):
        row = conn.execute("select pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])


def confirmed_lsn(conn: Connection, slot: str) -> int:
    """How far a slot's reader has confirmed."""
    with translated(f"reading slot {slot}"):
        row = conn.execute(
            "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s",
            (slot,),
        ).fetchone()
    assert row is not None, slot
    return parse_lsn(row[0])
