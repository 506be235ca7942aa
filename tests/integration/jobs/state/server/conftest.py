"""A state database in a folder of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.config import Config
from jobs.state.server.database import delete_state, state_server
from stack.guardian import Guardian
from tests.support.commands.state_places import SHOP, open_folder, state_config


@pytest.fixture(scope="module")
def made(guardian: Guardian) -> Iterator[Path]:
    """A state database that was started and stopped once; each test has a copy."""
    with open_folder(guardian) as folder:
        with state_server(state_config(folder), SHOP) as server:
            assert server.is_new
        yield folder


@pytest.fixture
def folder(guardian: Guardian) -> Iterator[Path]:
    with open_folder(guardian) as folder:
        yield folder


@pytest.fixture
def config(made: Path, folder: Path) -> Iterator[Config]:
    copy = folder / "views"
    subprocess.run(["cp", "-a", made, copy], check=True)
    yield state_config(copy)
    delete_state(state_config(copy))
