"""A state database that has no room, or that does not start: waited for or told, and why."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from cdc.config import Config
from cdc.errors import RetryableError, StateError
from jobs.state.server.connection import translated
from jobs.state.server.database import delete_state, state_server
from tests.support.commands.state_places import (
    SHOP,
    place_of,
    remember,
    remembered,
    state_config,
)


def test_a_full_disk_is_waited_for_and_told(config: Config) -> None:
    """To the server a file that may not grow is what a full disk is."""
    remember(config, "a")
    with state_server(config, SHOP) as server:
        with server.connect(autocommit=True) as conn:
            conn.execute("create table headwater.large (x text)")
            limit = f"prlimit --pid {conn.info.backend_pid} --fsize={1 << 20}"  # as who it runs as
            conn.execute(f"copy (select 1) to program '{limit}'".encode())
            fill = "insert into headwater.large select repeat(md5(i::text), 60)"
            said = "filling: the state database's disk: File too large. Free space"
            with pytest.raises(RetryableError, match=said), translated("filling"):
                conn.execute(f"{fill} from generate_series(1, 2000) i".encode())
        with server.connect() as conn:
            assert remembered(conn) == ["a"]


def test_no_room_for_a_start_is_told(folder: Path) -> None:
    config = state_config(folder)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with (
            pytest.raises(RetryableError, match=r"File too large\. Free disk space there"),
            state_server(config, SHOP),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    remember(config, "a")
    delete_state(config)


def test_a_server_that_does_not_start_says_why(config: Config) -> None:
    (place_of(config).data / "global" / "pg_control").unlink()
    with (
        pytest.raises(StateError, match=r"does not start: .*pg_control"),
        state_server(config, SHOP),
    ):
        pass


def test_a_data_directory_of_a_version_that_is_not_here_is_told(config: Config) -> None:
    (place_of(config).data / "PG_VERSION").write_text("12\n")
    with (
        pytest.raises(StateError, match="was created by PostgreSQL 12, which is not installed"),
        state_server(config, SHOP),
    ):
        pass
