"""Servers that nobody stopped are stopped by whoever deletes their folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import process, servers, state
from stack.process import Process

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `make clean` needs of a checkout, without an environment."""
    for needed in ("Makefile", "stack", "cdc"):
        (tmp_path / needed).symlink_to(CHECKOUT / needed)
    return tmp_path


@pytest.fixture
def homes(checkout: Path) -> Iterator[dict[Path, Process]]:
    """Running servers as `headwater up` and `headwater demo --keep` leave them."""
    running: dict[Path, Process] = {}
    for home in (checkout / ".headwater/stack", checkout / ".headwater/demo/servers"):
        servers.start(home, ["redis"])
        server = state.load(home)["redis"].process
        assert server is not None
        running[home] = server
    yield running
    for server in running.values():
        process.kill(server)


def make_clean(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "clean", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_make_clean_stops_every_server_below_the_folder_it_deletes(
    checkout: Path, homes: dict[Path, Process]
) -> None:
    done = make_clean(checkout)
    assert done.returncode == 0, done.stderr
    assert not any(process.alive(server) for server in homes.values())
    assert not (checkout / ".headwater").exists()


def test_make_clean_deletes_nothing_when_it_cannot_know_what_runs(
    checkout: Path, homes: dict[Path, Process]
) -> None:
    [*_, home] = homes
    (home / "state.json").write_text("{")
    refused = make_clean(checkout)
    assert refused.returncode != 0
    assert f"{home.relative_to(checkout)}/state.json cannot be read" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert process.alive(homes[home])
    assert home.exists()
