"""Configurations whose state database is embedded, and where it lies in a test."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from cdc.config import Config, parse_config
from jobs.state.server.database import state_server
from jobs.state.server.identity import Identity
from jobs.state.server.location import Place, home_of, recorded_place
from stack.guardian import Guardian

SHOP = Identity("shop", "7301", "shop")

# Keeps the state database of a folder until it is killed or its input ends. It has a child that
# was forked from it.
KEEPER = """
import os
import signal
import sys
from pathlib import Path
from tests.support.commands.state_places import SHOP, state_config
from jobs.state.server.database import state_server
with state_server(state_config(Path(sys.argv[1]), state_dsn=sys.argv[2]), SHOP):
    if os.fork() == 0:  # as a worker of Spark or of a snapshot, which may outlive us
        os.close(1)
        signal.alarm(60)
        signal.pause()
    print("kept", flush=True)
    sys.stdin.read()
"""


def state_config(folder: Path, **apply: Any) -> Config:
    """Of a source that no test connects to."""
    return parse_config(
        {
            "source": {"name": "shop", "dsn": "host=nowhere", "tables": ["public.*"]},
            "kafka": {"bootstrap_servers": "localhost:9"},
            "apply": {"state": str(folder), "engine": "database", **apply},
        },
        {},
        folder,
    )


@contextmanager
def open_folder(guardian: Guardian) -> Iterator[Path]:
    """A folder that ``nobody`` may enter: pytest's own are root's alone, and made so again by each
    run that begins."""
    with tempfile.TemporaryDirectory(prefix="headwater-state-") as folder:
        guardian.delete(Path(folder))
        Path(folder).chmod(0o755)
        yield Path(folder)


def keeper(folder: Path, state_dsn: str = "") -> subprocess.Popen[str]:
    """Another process that keeps the state database of ``folder``; returns once it does."""
    child = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(folder), state_dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "kept\n"
    return child


def place_of(config: Config) -> Place:
    found = recorded_place(home_of(config.apply.state, config.source.name))
    assert found is not None
    return found


def remember(config: Config, note: str) -> None:
    """Keep a note in the state database, as a topic."""
    with state_server(config, SHOP) as server, server.connect() as conn:
        conn.execute("insert into headwater.stream values (%s, 0, 7)", [note])


def remembered(conn: psycopg.Connection[tuple[str]]) -> list[str]:
    """All notes."""
    rows = conn.execute("select topic from headwater.stream order by 1").fetchall()
    return [topic for (topic,) in rows]
