"""Who publishes the shop's changes: capture, and in exhaustive runs also a real Debezium, so that
what a consumer makes of them is known of both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.commands.deployment import Deployment
from tests.support.consumers.published import Published, by_capture, by_debezium

PRODUCERS = {"capture": by_capture, "debezium": by_debezium}


class Publish(Protocol):
    """Publishes all changes in the form of the preset ``debezium``, but for ``settings``."""

    def __call__(self, settings: Mapping[str, str], full: bool = False) -> Published: ...


@pytest.fixture
def deployment(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    return Deployment(tmp_path, source_name, database, kafka)


@pytest.fixture(params=["capture", pytest.param("debezium", marks=pytest.mark.exhaustive)])
def publish(request: pytest.FixtureRequest, deployment: Deployment) -> Publish:
    return partial(PRODUCERS[request.param], deployment)
