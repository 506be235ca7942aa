"""The embedded state database: kept over stops and kills, private, one process's at a time."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc.config import Config
from cdc.errors import RetryableError, StateError
from jobs.state.server import location as places
from jobs.state.server.apply_lock import directory_holder
from jobs.state.server.connection import connect, translated
from jobs.state.server.database import delete_state, running_dsn, state_server
from jobs.state.server.location import home_of
from jobs.state.server.postmaster import running
from stack.guardian import Guardian
from tests.support.commands.state_places import (
    SHOP,
    keeper,
    place_of,
    remember,
    remembered,
    state_config,
)
from tests.support.waiting import wait_until

SECRET = "4111-1111-secret"


def postmaster(config: Config) -> int:
    found = running(place_of(config))
    assert found is not None
    return found.pid


def test_what_is_committed_is_there_after_a_stop(config: Config) -> None:
    remember(config, "a")
    assert running(place_of(config)) is None
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert not server.is_new
        assert remembered(conn) == ["a"]


def test_it_is_crash_safe_private_and_bounded(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    with state_server(config, SHOP) as server, server.connect() as conn:
        shown = {
            name: conn.execute("select current_setting(%s)", [name]).fetchone()
            for name in (
                *("fsync", "synchronous_commit", "full_page_writes", "data_checksums"),
                *("listen_addresses", "jit", "TimeZone", "DateStyle", "server_encoding"),
            )
        }
        values = [row[0] for row in shown.values() if row]
        assert values == ["on", "on", "on", "on", "", "off", "UTC", "ISO, MDY", "UTF8"]
        socket = place_of(config).socket
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert stat.S_IMODE(place_of(config).data.stat().st_mode) == 0o700
        closed = stat.S_IMODE(place_of(config).home.stat().st_mode)
        assert closed == (0o711 if os.geteuid() == 0 else 0o700)
        for process in (postmaster(config), conn.info.backend_pid):
            assert SECRET.encode() not in Path(f"/proc/{process}/environ").read_bytes()
        row = conn.execute("select lower('ÄÖ'), 'Z' < 'a', 'ä' > 'z'").fetchone()
        assert row == ("äö", True, True)


def test_no_value_reaches_the_log(config: Config) -> None:
    with state_server(config, SHOP) as server:
        with server.connect() as conn, pytest.raises(psycopg.Error):
            conn.execute("select %s::text::int", [SECRET])
        with server.connect() as conn:
            conn.execute("create temp table t (x text primary key)")
            with pytest.raises(psycopg.Error):
                conn.execute("insert into t select %s from generate_series(1, 2)", [SECRET])
    log = place_of(config).log.read_text(encoding="utf-8")
    assert "ready to accept connections" in log
    assert SECRET not in log


def test_it_ends_by_itself_when_its_keeper_is_killed(config: Config, guardian: Guardian) -> None:
    remember(config, "a")
    child = keeper(Path(config.apply.state))
    guardian.end(child.pid)
    pid = postmaster(config)
    child.kill()
    child.wait()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the server to end")
    assert "database system is shut down" in place_of(config).log.read_text(encoding="utf-8")


def test_a_start_right_after_a_kill_finds_all(config: Config, guardian: Guardian) -> None:
    remember(config, "a")
    child = keeper(Path(config.apply.state))
    guardian.end(child.pid)
    child.kill()
    child.wait()
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert remembered(conn) == ["a"]


def test_a_server_that_nobody_watches_is_ended_by_the_next_start(
    config: Config, guardian: Guardian
) -> None:
    child = keeper(Path(config.apply.state))
    guardian.end(child.pid)
    left_over = postmaster(config)
    shells = [pid for pid in _processes() if _command(pid).startswith("/bin/sh -c \nexec 3<&0")]
    ours = [pid for pid in shells if str(place_of(config).data) in _command(pid)]
    assert len(ours) == 2
    for pid in (*ours, child.pid):
        os.kill(pid, signal.SIGKILL)
    child.wait()
    assert Path(f"/proc/{left_over}").exists()
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert remembered(conn) == []
        assert postmaster(config) != left_over


def test_a_killed_server_is_started_again(config: Config) -> None:
    with state_server(config, SHOP) as server:
        with server.connect() as conn:
            conn.execute("insert into headwater.stream values ('a', 0, 7)")
        before = server.connect(autocommit=True)
        os.kill(postmaster(config), signal.SIGKILL)
        wait_until(lambda: running(place_of(config)) is None, "the server to be gone")
        with pytest.raises(RetryableError), translated("asking"):
            before.execute("select pg_sleep(60)")  # ends with its server
        found: list[list[str]] = []

        def ask() -> None:
            with server.connect() as conn:
                found.append(remembered(conn))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [["a"]] * 3
        server.hold()


def test_it_runs_as_whoever_owns_its_files(config: Config) -> None:
    """An ordinary user's are not taken over by root."""
    owner = 1 if os.geteuid() == 0 else os.geteuid()  # daemon
    if owner == 1:
        subprocess.run(["chown", "-R", "1", place_of(config).data], check=True)
    remember(config, "a")
    with state_server(config, SHOP):
        assert Path(f"/proc/{postmaster(config)}").stat().st_uid == owner


def test_a_stale_pid_file_of_another_process_is_no_server(config: Config) -> None:
    remember(config, "a")
    pid_file = place_of(config).data / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{place_of(config).data}\n1\n5432\n\n\n\nready   \n")
    assert running_dsn(config) == ""
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert remembered(conn) == ["a"]


def test_two_processes_never_keep_the_same_state(config: Config, guardian: Guardian) -> None:
    child = keeper(Path(config.apply.state))
    guardian.end(child.pid)
    with (
        pytest.raises(StateError, match=rf"in use by pid {child.pid} on \S+, since 20"),
        state_server(config, SHOP, busy_s=0.1),
    ):
        pass
    home = home_of(config.apply.state, config.source.name)
    assert directory_holder(home).startswith(f"pid {child.pid} on ")
    with connect(running_dsn(config)) as conn:  # others may ask it
        assert remembered(conn) == []
    child.communicate("")
    assert directory_holder(home) == ""
    assert running_dsn(config) == ""


def test_the_state_of_another_source_is_refused(config: Config) -> None:
    remember(config, "a")
    other = replace(SHOP, system_identifier="7302")
    with (
        pytest.raises(StateError, match=r"belongs to source shop \(database shop, system 7301\)"),
        state_server(config, other),
    ):
        pass
    with state_server(config, SHOP) as server, server.connect() as conn:
        assert remembered(conn) == ["a"]


def test_a_folder_that_the_server_cannot_enter_or_name_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket's path has a limit; to root's server also a folder of root's is out of reach."""
    outside = folder / "outside"
    monkeypatch.setattr(places, "OUTSIDE", outside)
    private = folder / "private"
    private.mkdir(mode=0o700)
    config = state_config(private / ("v" * 100))
    remember(config, "a")
    place = place_of(config)
    is_root = os.geteuid() == 0
    assert place.directory.is_relative_to(outside if is_root else private)
    assert not place.socket.is_relative_to(private)
    moved = state_config((private / ("v" * 100)).rename(private / ("w" * 100)))
    with state_server(moved, SHOP) as server, server.connect() as conn:
        assert remembered(conn) == ["a"]
    subprocess.run(["cp", "-a", moved.apply.state, config.apply.state], check=True)
    if is_root:
        with (
            pytest.raises(StateError, match=r"is a copy of .* Remove "),
            state_server(config, SHOP),
        ):
            pass
    delete_state(moved)
    assert not place.directory.exists()


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
