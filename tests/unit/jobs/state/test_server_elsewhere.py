"""The state database of another container that shares the folder: its processes are not seen."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cdc.config import Config, parse_config
from jobs.state.server.database import running_dsn
from jobs.state.server.location import Place, home_of, recorded_place
from jobs.state.server.postmaster import running

UNUSED_PID = 1 << 30
"""Higher than a process can have."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    document = {
        "source": {"name": "s", "dsn": "postgresql://nowhere", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "apply": {"state": str(tmp_path / "v")},
    }
    return parse_config(document, {}, tmp_path)


@pytest.fixture
def place(config: Config) -> Place:
    """As it is while the server runs."""
    home = home_of(config.apply.state, config.source.name)
    (home / "data").mkdir(parents=True)
    (home / "socket").mkdir()
    written = {"outside": None, "socket": str(home / "socket")}
    (home / "place.json").write_text(json.dumps(written))
    found = recorded_place(home)
    assert found is not None
    note(found, "ready   ")
    return found


def note(place: Place, status: str) -> None:
    lines = [UNUSED_PID, place.data, 0, 5432, place.socket, "", "  1  2", status]
    (place.data / "postmaster.pid").write_text("\n".join(map(str, lines)) + "\n")


def test_it_is_known_by_its_socket(config: Config, place: Place) -> None:
    assert running(place) is None
    assert running_dsn(config) == "", "nobody listens"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place.socket_file))
        assert running_dsn(config) == "", "the socket of one that was killed"
        server.listen()
        assert running_dsn(config) == place.dsn
        note(place, "starting")
        assert running_dsn(config) == ""
    (place.data / "postmaster.pid").unlink()
    assert running_dsn(config) == ""
