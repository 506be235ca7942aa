"""Replays of a view over several tables: real Kafka and OpenSearch, killed between its steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import opensearchpy
import pytest

from cdc.config import Config
from jobs.replaying import replay
from jobs.rewinding import parse_place
from tests.every_store import EveryStore, Urls
from tests.lending import Lender

POINTS = (
    *("before batch#1", "after attempt#1", "after touched#1", "before bulk#1", "after bulk#1"),
    *("after attempt#2", "after touched cleared#1"),
)
"""Where a driver is killed in the batch of a replay, one after the other."""


@pytest.fixture
def setting(
    lender: Lender,
    kafka: str,
    redis_server: str,
    opensearch: str,
    store_database: str,
    source_name: str,
    tmp_path: Path,
) -> Iterator[EveryStore]:
    urls = Urls(redis_server, redis_server, str(tmp_path / "lake"), store_database, opensearch)
    made = EveryStore(lender, kafka, source_name, tmp_path, urls)
    yield made
    made.broker.close()


def begun_again(setting: EveryStore, place: str) -> None:
    view = setting.views["joined"]
    config = Config.model_validate(setting.config)
    assert replay(config, setting.broker, view, place, parse_place(place)).records


def lose(setting: EveryStore) -> None:
    """The store lacks some rows. A delete by hand counts for OpenSearch as the version after."""
    with opensearchpy.OpenSearch([setting.urls.opensearch]) as client:
        for id_ in (1, 3):
            client.delete(index=f"{setting.views['joined']}-1", id=str(id_), refresh=True)


def newer(setting: EveryStore) -> None:
    """Something that is newer than any of that: in a batch of its own, if that was applied."""
    setting.lsn += 100
    setting.customer(9, f"at {setting.lsn}")


@pytest.mark.parametrize("news", [False, True])
def test_killed_between_any_two_steps_of_a_replay_the_store_is_right_in_the_end(
    setting: EveryStore, news: bool
) -> None:
    """It is one batch, repeated after each kill; ``news``: with what was never applied before."""
    setting.customer(1, "Ada")
    setting.customer(2, "Bob")
    setting.order(1, "first", 1, 2, 3, 4)
    setting.calm()
    setting.customer(1, "Ada L.")
    setting.order(2, "second", 3)
    setting.drop(4)
    setting.poison(5)
    setting.calm()
    newer(setting)
    setting.calm()
    lose(setting)
    begun_again(setting, "beginning")
    if news:
        setting.order(1, "news", 2, 6)
        newer(setting)
    for point in POINTS:
        driver = setting.started()
        try:
            setting.armed(driver, {"joined": point})
        finally:
            setting.forget(driver)
    setting.calm()
