"""The servers of ``headwater up``: started, reused, refused, stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import redis

from cdc.errors import StackError
from stack import docker, postgres, process, servers, state
from stack.ports import HOST
from stack.postgres import MAJOR, outside_directory
from tests.support.waiting import wait_until

ROOT = os.geteuid() == 0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home of the test's own; for root it lies in a folder that ``nobody`` cannot enter."""
    tmp_path.chmod(0o700)
    yield tmp_path / "stack"
    servers.purge(tmp_path / "stack")


def pids(home: Path) -> dict[str, int | None]:
    return {line.name: line.pid for line in servers.status(home)}


def conditions(home: Path, *names: str) -> set[str]:
    return {line.condition for line in servers.status(home) if line.name in names}


# --- reuse ------------------------------------------------------------------------------------


def test_a_second_start_uses_what_runs_and_each_can_be_stopped_alone(home: Path) -> None:
    first = servers.start(home, ["redis", "postgres"])
    running = pids(home)
    assert servers.start(home, ["redis", "postgres"]) == first
    assert pids(home) == running
    assert servers.stop(home, ["redis"]) == ["redis"]
    assert conditions(home, "postgres") == {"running"}


def test_two_starts_at_once_start_one_server(home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: servers.start(home, ["redis"]), range(2)))
    assert both[0] == both[1]
    assert conditions(home, "redis") == {"running"}


def test_a_stopped_server_comes_back_with_its_settings(home: Path) -> None:
    dsn = servers.start(home, ["postgres"], {"postgres": {"wal_level": "replica"}}).postgres_dsn
    assert servers.stop(home) == ["postgres"]
    assert servers.start(home, ["postgres"]).postgres_dsn == dsn
    with psycopg.connect(dsn) as connection:
        assert connection.execute("show wal_level").fetchone() == ("replica",)


def test_other_settings_restart_the_server(home: Path) -> None:
    servers.start(home, ["redis"])
    url = servers.start(home, ["redis"], {"redis": {"maxmemory": "64mb"}}).redis_url
    with redis.Redis.from_url(url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(64 << 20)}


# --- what cannot start ------------------------------------------------------------------------


def test_a_server_whose_new_settings_do_not_fit_its_data_goes_on(home: Path) -> None:
    dsn = servers.start(home, ["postgres"]).postgres_dsn
    with pytest.raises(StackError, match=r"is PostgreSQL 18's, not 16's"):
        servers.start(home, ["postgres"], {"postgres": {MAJOR: "16"}})
    assert conditions(home, "postgres") == {"running"}
    with psycopg.connect(dsn) as connection:
        assert connection.execute("show wal_level").fetchone() == ("logical",)


def test_a_port_that_was_taken_meanwhile_is_an_error_that_names_it(home: Path) -> None:
    servers.start(home, ["redis"])
    port = state.load(home)["redis"].ports["main"]
    servers.stop(home)
    with socket.create_server((HOST, port)):
        with pytest.raises(StackError, match=rf"redis: port {port} on {HOST} is taken"):
            servers.start(home, ["redis"])
        assert conditions(home, "redis") == {"stopped"}
    assert servers.start(home, ["redis"]).redis_url.endswith(f":{port}/0")


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("redis", {"maxmemory": "plenty"}, "maxmemory"),
        ("postgres", {"shared_buffers": "plenty"}, "shared_buffers"),
        ("kafka", {"num.io.threads": "plenty"}, "num.io.threads"),
    ],
)
def test_a_server_that_dies_at_start_shows_the_end_of_its_log(
    home: Path, name: str, setting: dict[str, str], said: str
) -> None:
    with pytest.raises(StackError, match=rf"(?s){name}.*log.*{said}"):
        servers.start(home, [name], {name: setting})
    assert pids(home)[name] is None
    if name != "kafka":  # which takes longest
        assert servers.start(home, [name], {name: {}}).addresses[name]


def test_a_server_that_never_answers_is_ended_and_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers.SERVERS["redis"]
    monkeypatch.setattr(type(server), "answers", lambda _self, _place: False)
    traits = type(server.traits)("redis", start_timeout_s=0.2)
    monkeypatch.setattr(type(server), "traits", traits)
    with pytest.raises(StackError, match="redis does not answer after"):
        servers.start(home, ["redis"])
    assert conditions(home, "redis") == {"stopped"}


# --- stopping ---------------------------------------------------------------------------------


def test_stop_leaves_a_stranger_alone_who_was_given_the_pid(home: Path) -> None:
    servers.start(home, ["redis"])
    with subprocess.Popen(["sleep", "600"]) as stranger:
        known = state.load(home)
        process.kill(known["redis"].process)
        stale = process.Process(stranger.pid, "the moment redis started")
        state.put(home, known, state.ServerState("redis", known["redis"].ports, "/x", {}, stale))
        assert servers.stop(home) == []
        assert stranger.poll() is None
        stranger.kill()


def test_purge_deletes_what_is_ours_and_nothing_else(home: Path) -> None:
    servers.start(home, ["redis", "postgres"])
    (home / "notes.txt").write_text("mine")
    known = state.load(home)
    if ROOT:  # its PostgreSQL runs as somebody else, outside of a private folder
        assert Path(known["postgres"].data).is_relative_to(outside_directory(home))
        assert known["postgres"].process is not None
        assert Path(f"/proc/{known['postgres'].process.pid}").stat().st_uid != 0
    doomed = [known[name].process for name in ("redis", "postgres")]
    servers.purge(home)
    assert not any(process.alive(one) for one in doomed)
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    assert not outside_directory(home).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_test_run_that_is_interrupted_leaves_no_server_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "test_endless.py").write_text(
        "import threading\nfrom pathlib import Path\n"
        "def test_endless(redis_server):\n"
        "    Path(__file__).with_name('url').write_text(redis_server)\n"
        "    threading.Event().wait()\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", str(tmp_path)]
    url = tmp_path / "url"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        try:
            wait_until(
                lambda: url.exists() and url.read_text(), "the inner test to have its server"
            )
            run.send_signal(number)
            assert run.wait(timeout=120) == pytest.ExitCode.INTERRUPTED
        finally:
            run.kill()
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url.read_text()) as client:
        client.ping()


# --- containers -------------------------------------------------------------------------------


def test_the_same_servers_come_up_in_containers() -> None:
    try:
        docker.require_engine()
    except StackError as reason:
        pytest.skip(str(reason))
    try:
        with psycopg.connect(docker.up().postgres_dsn) as connection:
            assert connection.execute("show wal_level").fetchone() == ("logical",)
    finally:
        docker.down(purge=True)


@pytest.mark.skipif(not ROOT, reason="only root runs PostgreSQL as somebody else")
def test_copied_binaries_run_for_a_user_who_cannot_reach_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = process.unprivileged_user()
    assert user is not None
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        monkeypatch.setattr(postgres, "_can_run", lambda *_: False)
        binaries = postgres.reachable_binaries(directory, user)
        assert directory in binaries.parents
        for program in ("postgres", "initdb"):
            done = subprocess.run(
                [binaries / program, "--version"],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
                **process.as_user(user),
            )
            assert done.returncode == 0, done.stderr
