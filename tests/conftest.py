"""The real servers, one set for a whole run of pytest, each started when a test first asks for it.

A server that does not come up fails the tests that need it; nothing is skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from jobs.state.server.location import OUTSIDE
from stack import servers as stack_servers
from stack.guardian import Guardian
from stack.servers import Endpoints
from tests.support.servers.postgres import fresh_database

# Python keeps what it has compiled, also where it is told not to: the lanes, the commands under
# test and Spark's workers are hundreds of processes, and each would compile the same again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = [
    "tests.support.durations",
    "tests.support.exhaustive",
    "tests.support.pure",
    "tests.support.servers.spark",
    "tests.support.servers.stores",
]

# A run that decides whether a change may land tells of that change: its examples are those of the
# run before. `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("repeated", derandomize=True, deadline=None)  # machines are busy
settings.register_profile("explore", print_blob=True, deadline=None)
settings.load_profile("repeated")

# Tests kill processes, never the machine: what was handed to the system is safe.
_SETTINGS = {
    "postgres": {"fsync": "off", "max_connections": "200", "wal_sender_timeout": "30s"},
    # A test that looks at a compacted log does not wait 15 s for the cleaner. Nobody kills this
    # broker; one that has no CPU for some seconds is not to lose its leaders for it.
    "kafka": {"log.cleaner.backoff.ms": "200", "broker.session.timeout.ms": "60000"},
}


# What is drawn on a terminal is tested wherever the run is, also where there is none.
os.environ["TERM"] = "xterm-256color"

# Spark's second compiler would be half of the CPU that a command under test takes, which lives for
# seconds. Without it Java has so little room for what it compiled that a JVM which lives for the
# whole run would fill it, and then spend a fifth of its time on emptying it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m")


def pytest_configure() -> None:
    """A terminated run stops its servers just as one ended by Ctrl-C, which a shell has those that
    it starts in the background ignore."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def guardian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guardian]:
    """Ends what the run started, should it be killed: also servers below a ``tmp_path``."""
    guardian, base = Guardian(), tmp_path_factory.getbasetemp()
    guardian.purge(base)
    yield guardian
    guardian.release()
    # State databases of root, which ``nobody`` could not reach below a ``tmp_path``.
    for home in OUTSIDE.glob("*/home"):
        if Path(home.read_text(encoding="utf-8")).is_relative_to(base):
            shutil.rmtree(home.parent)


@pytest.fixture(scope="session")
def stack_home(guardian: Guardian) -> Iterator[Path]:
    """The home of the session's servers; whatever runs in it at the end is stopped and deleted."""
    with tempfile.TemporaryDirectory(prefix="headwater-tests-") as directory:
        guardian.purge(Path(directory))
        guardian.delete(Path(directory))
        home = Path(directory) / "stack"
        try:
            yield home
        finally:
            stack_servers.purge(home)


def _start(home: Path, *names: str) -> Endpoints:
    return stack_servers.start(home, names, {k: v for k, v in _SETTINGS.items() if k in names})


@pytest.fixture(scope="session")
def postgres(stack_home: Path) -> str:
    """DSN of the superuser in the database ``postgres``. Tests want ``database`` instead."""
    return _start(stack_home, "postgres").postgres_dsn


@pytest.fixture(scope="session")
def kafka(stack_home: Path) -> str:
    """Bootstrap address. Topics are told apart by ``source_name``."""
    return _start(stack_home, "kafka").kafka_bootstrap


@pytest.fixture(scope="session")
def opensearch(stack_home: Path) -> str:
    """URL. Indexes are told apart by ``source_name``."""
    return _start(stack_home, "opensearch").opensearch_url


@pytest.fixture(scope="session")
def redis_server(stack_home: Path) -> str:
    """URL of database 0. Keys are told apart by ``source_name``."""
    return _start(stack_home, "redis").redis_url


@pytest.fixture(scope="session")
def servers(stack_home: Path) -> Endpoints:
    """All four, started together."""
    return _start(stack_home, *stack_servers.SERVERS)


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """DSN of a fresh database, dropped with its replication slots when the test is over."""
    with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def store_database(postgres: str) -> Iterator[str]:
    """Another one, to keep views in."""
    with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def source_name() -> str:
    """A source name no other test has: topics, indexes and keys that begin so are the test's."""
    return f"t{uuid.uuid4().hex[:10]}"
