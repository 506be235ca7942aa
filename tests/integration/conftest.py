"""A deployment on the session's servers, and the small source that most tests of capture share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deployment import Deployment


@pytest.fixture
def deployment(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    """A database of its own that holds nothing yet."""
    return Deployment(tmp_path, source_name, database, kafka)


@pytest.fixture
def shop(deployment: Deployment) -> Deployment:
    """One table. A module whose tests need another source has a ``shop`` of its own."""
    deployment.execute("create table item (id int primary key, name text)")
    return deployment
