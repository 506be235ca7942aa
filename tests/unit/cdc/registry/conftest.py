"""A registry that answers as it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.told_registry import Server, answering


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as made:
        yield made
