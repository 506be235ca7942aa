"""A deployment on the session's servers, and the small source that most tests of capture share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from stack import servers
from tests.deployment import Deployment

Freeze = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def deployment(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    """A database of its own that holds nothing yet."""
    return Deployment(tmp_path, source_name, database, kafka)


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """One table. A module whose tests need another source has a ``shop`` of its own."""
    deployment.execute("create table item (id int primary key, name text)")
    return deployment


@pytest.fixture
def frozen_kafka(stack_home: Path) -> Freeze:
    """A block in which the broker keeps its connections and answers nothing."""

    @contextmanager
    def frozen() -> Iterator[None]:
        (pid,) = [line.pid for line in servers.status(stack_home) if line.name == "kafka"]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return frozen
