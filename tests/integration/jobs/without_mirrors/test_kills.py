"""Views in every store over ``kill -9`` between every two steps of a micro-batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

import pytest

from jobs.batch.thresholds import FEW_ROWS
from stack.process import kill
from tests.support.commands.killed_drivers import STEPS, Driver, traced
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database
from tests.support.servers.proxy import Proxy, proxied
from tests.support.servers.python_workers import python_workers
from tests.support.views.every_store import EveryStore, Urls
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {
    "cache": ("after store#1", "after letters noted#1", "before group#1"),
    "lake": ("after letters sent#1", "after merge here#1", "after letters sent#2"),
    "table": ("after store#1", "before batch#1", "after letters settled#1"),
    "joined": ("after touched#1", "after mirror#1", "after refresh#1"),
}
"""Where each view is killed in one round after the other, each time in another batch. Views share
their steps, but for those of their stores and of mirrors; where nothing is written between the end
of a step and the next one, one of the two is enough. Between any two files of mirrors:
``tests/unit/jobs/delta_engine/test_mirrors_crashes.py``."""
TRUNCATED = {
    "cache": ("after truncate noted#1", "after store truncated#1"),
    "lake": ("after store truncated#1", "before store truncated#1"),
    "table": ("before store truncated#1", "after store truncated#1"),
    "joined": ("after touched cleared#1", "after attempt#2"),
}
"""The first of each has every kind of step; the others are exhaustive, as of the other two."""
LARGE = {
    "cache": ("before store#1", "after store#1"),
    "lake": ("after merge by spark#1", "before merge by spark#1"),
    "table": ("after batch#1", "after store#1"),
    "joined": ("after mirror#1", "after store#1"),
}
"""In one batch, that is killed again as it is repeated."""
ONE_OR_ALL = pytest.mark.parametrize(
    "at_most", [1, pytest.param(None, marks=pytest.mark.exhaustive)], ids=["", "all"]
)
ROWS = FEW_ROWS + 100
FIRST = range(10_000, 10_000 + ROWS)


@pytest.fixture(scope="module")
def proxy(redis_server: str) -> Iterator[tuple[str, Proxy]]:
    with proxied(redis_server) as found:
        yield found


@pytest.fixture(scope="module")
def setting(
    lender: Lender,
    postgres: str,
    kafka: str,
    redis_server: str,
    proxy: tuple[str, Proxy],
    opensearch: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[EveryStore]:
    """All views are built. Each test finds what the one before has left, the orders 1, 2 and 3 and
    maybe others, and leaves nothing that is parked."""
    home = tmp_path_factory.mktemp("killed")
    with fresh_database(postgres) as store:
        urls = Urls(redis_server, proxy[0], str(home / "lake"), store, opensearch)
        made = EveryStore(lender, kafka, f"t{os.urandom(5).hex()}", home, urls)
        made.customer(1, "Ada")
        made.order(1, "first", 1, 2, 3)
        made.calm()
        yield made
        made.broker.close()


def rounds(
    points: Mapping[str, tuple[str, ...]], at_most: int | None = None
) -> Iterator[dict[str, str]]:
    """The views that are killed together."""
    for each in islice(zip_longest(*points.values()), at_most):
        yield {name: point for name, point in zip(points, each, strict=True) if point}


@pytest.mark.timeout(1500)
@ONE_OR_ALL
def test_killed_between_any_two_steps_every_store_is_right_and_no_letter_is_doubled(
    setting: EveryStore, at_most: int | None
) -> None:
    """Of small batches, over one table into Redis (with secondary sets),
    Delta and PostgreSQL, and over two, with mirrors, into OpenSearch. Each batch has an event that
    becomes a dead letter, and a delete that settles the one of the batch before.

    The next driver repeats the batch, and before it begins another one all stores are looked at.
    """

    def some(number: int) -> None:
        setting.customer(1, f"Ada {number}")
        setting.customer(number, "new")
        setting.order(number, f"of {number}", number, 3)
        setting.drop(number - 1)
        setting.drop(number + 999)
        setting.poison(number + 1_000)

    def truncated(_number: int) -> None:
        setting.order(1, "gone", 4)
        setting.truncate(1, 2, 3)

    for change, of in ((some, rounds(SMALL, at_most)), (truncated, rounds(TRUNCATED, at_most))):
        for number, each in enumerate(of, 100):
            killed(setting, each, partial(change, number))
    setting.drop(*setting.parked)
    setting.calm()
    assert _passed(setting) >= STEPS.keys() - {"merge by spark"}


def killed(setting: EveryStore, points: Mapping[str, str], change: Callable[[], None]) -> None:
    """A driver repeats what was killed and then, in the batch that a change makes, is killed."""
    before = setting.expected()
    change()
    driver = setting.started(held=True)
    try:
        wait_until(driver.holds, "the batches of before to be done", 400)
        setting.check(before)
        setting.armed(driver, points)
    finally:
        setting.forget(driver)


@pytest.mark.timeout(1500)
@ONE_OR_ALL
def test_killed_as_executors_write_and_workers_killed_every_store_is_right(
    setting: EveryStore, proxy: tuple[str, Proxy], spark: SparkSession, at_most: int | None
) -> None:
    """The same of a batch that is too large for the driver: it is killed at a step. Then, of the
    next one, Spark's Python processes are killed when Redis has some of their rows, and the views
    go on; then the driver is."""
    setting.order(1, "many", *FIRST)
    for points in rounds(LARGE, at_most):
        driver = setting.started()
        try:
            setting.armed(driver, points)
        finally:
            setting.forget(driver)
    setting.calm()
    assert "merge by spark" in _passed(setting)

    setting.order(1, "changed", *FIRST)
    proxy[1].slow(0.2)
    driver = setting.started()
    try:
        found = partly(setting, driver, 0)
        workers = python_workers(spark)
        assert workers
        for worker in workers:
            kill(worker)
        wait_until(lambda: "view_interrupted" in driver.said(), "an interrupted view", 400)
        partly(setting, driver, found)
    finally:
        setting.forget(driver)
        proxy[1].release()
    setting.calm()


def partly(setting: EveryStore, driver: Driver, known: int) -> int:
    """Wait until Redis has more of the rows of a large batch than are known; how many."""

    def some() -> int:
        driver.check()
        found = setting.redis.scard(f"{setting.cached}#note:changed")
        return int(found) if found > known else 0

    found = wait_until(some, "some rows of a large batch", 400)
    assert found < ROWS, "it has all of them"
    return found


def test_a_row_read_before_its_delete_stays_away_where_no_store_remembers_that(
    setting: EveryStore,
) -> None:
    """As `headwater table add` brings it, behind an outage. A row that stands stays as it is."""
    setting.drop(2)
    setting.order(1, "later", 3)
    setting.calm()
    setting.forget_deleted()
    for id_ in (2, 3):
        setting.late(id_, "read")
    setting.calm()


def _passed(setting: EveryStore) -> set[str]:
    """The steps that were met."""
    points = (line.partition(": ")[2].partition("#")[0] for line in traced(setting.home))
    return {point.partition(" ")[2] for point in points}
