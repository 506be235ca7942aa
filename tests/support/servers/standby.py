"""A primary and its standby, on one machine, each in a home of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from stack import servers
from stack.postgres import Postgres, reachable_binaries
from stack.process import as_user, unprivileged_user
from tests.support.waiting import wait_until

SLOT = "standby"


@dataclass(slots=True)
class Pair:
    """Both run. Names of the homes; addresses of the superuser's database ``postgres``."""

    primary: Path
    standby: Path
    primary_dsn: str
    standby_dsn: str

    @property
    def dsn(self) -> str:
        """Whichever of the two is the primary now."""
        both = (self.primary_dsn, self.standby_dsn)
        hosts = ",".join(urlsplit(dsn).netloc.split("@")[1] for dsn in both)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def promote(self) -> None:
        """The primary dies; the standby takes its place."""
        servers.kill(self.primary, "postgres")
        with psycopg.connect(self.standby_dsn, autocommit=True) as conn:
            assert conn.execute("select pg_promote()").fetchone() == (True,)

    def replayed(self, lsn: int) -> None:
        """Wait until the standby has everything below ``lsn``."""

        def reached() -> bool:
            query = "select pg_last_wal_replay_lsn() - '0/0'::pg_lsn >= %s"
            with psycopg.connect(self.standby_dsn, autocommit=True) as conn:
                return conn.execute(query, [lsn]).fetchone() == (True,)

        wait_until(reached, "the standby to replay")

    def synchronised(self, slot: str) -> None:
        """Wait until the standby keeps the slot for good."""
        query = "select synced and not temporary from pg_replication_slots where slot_name = %s"

        def kept() -> bool:
            with psycopg.connect(self.standby_dsn, autocommit=True) as conn:
                # Wakes the process that synchronises, which sleeps for up to half a minute.
                conn.execute("select pg_reload_conf()")
                return conn.execute(query, [slot]).fetchone() == (True,)

        wait_until(kept, f"the standby to synchronise {slot}", 180)

    def purge(self) -> None:
        """Stop both and delete their data."""
        for home in (self.standby, self.primary):
            servers.purge(home)


def start_pair(directory: Path, primary_settings: Mapping[str, str]) -> Pair:
    """``primary_settings`` take effect when the standby is connected."""
    primary, standby = directory / "primary", directory / "standby"
    safe = {"fsync": "off", "wal_receiver_status_interval": "1s"}
    dsn = servers.start(primary, ["postgres"], {"postgres": safe}).postgres_dsn
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select pg_create_physical_replication_slot(%s)", [SLOT])
    place = urlsplit(dsn)
    upstream = f"host={place.hostname} port={place.port} user=postgres dbname=postgres"
    user = unprivileged_user()
    folder = Postgres().directory(standby)
    if user is not None:
        (folder / "data").mkdir(mode=0o700)
        os.chown(folder / "data", user.uid, user.gid)
    binaries = reachable_binaries(folder, user)
    subprocess.run(
        [
            str(binaries / "pg_basebackup"),
            *("-d", upstream, "-D", str(folder / "data"), "-R", "-S", SLOT, "-c", "fast"),
        ],
        check=True,
        cwd="/",
        capture_output=True,
        **as_user(user),
    )
    settings = {
        **safe,
        "hot_standby_feedback": "on",
        "sync_replication_slots": "on",
        "primary_slot_name": SLOT,
        "primary_conninfo": upstream,
    }
    standby_dsn = servers.start(standby, ["postgres"], {"postgres": settings}).postgres_dsn
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in primary_settings.items():
            conn.execute(f"alter system set {name} = '{value}'")
        conn.execute("select pg_reload_conf()")
    return Pair(primary, standby, dsn, standby_dsn)
