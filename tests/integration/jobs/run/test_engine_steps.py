"""``headwater apply`` over the state database, killed at each step of its work, those of a view in
each kind of store, while a writer works: every view is what its SQL gives on the source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.chaos.dying import BUILDING, STEPS, VARIABLE, told
from tests.chaos.views import STORES
from tests.integration.jobs.run.test_engine_kills import VIEWS, declare, writing
from tests.maintain.cases import SHOP
from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

COMMAND = (
    "from tests.support.servers.lent_jvm import borrow_as_told; borrow_as_told();"
    " from tests.chaos.dying import main; main()"
)
OF_A_BATCH = [
    (name, store) for name, step in STEPS.items() for store in (STORES if step.of_store else ("",))
]
TIMES = 2
"""A step's first time may be while apply catches up with what it missed."""


@pytest.fixture
def shop(
    deployment: Deployment, lender: Lender, redis_server: str, opensearch: str, store_database: str
) -> Iterator[Deployment]:
    """A shop that is captured and written to, and declared views, a store of each kind."""
    deployment.jvm = lender
    deployment.execute(SHOP)
    declare(deployment, redis_server, opensearch, store_database)
    deployment.init()
    with deployment.running("capture") as capture:
        deployment.captured(capture)
        yield deployment


def names(deployment: Deployment) -> list[str]:
    return [f"{deployment.name}_{view}" for view in VIEWS]


@contextmanager
def dying(
    deployment: Deployment, lender: Lender, step: str, store: str, times: int
) -> Iterator[subprocess.Popen[bytes]]:
    """An apply that kills itself there; at the end it must have."""
    loan = lender.lend()
    environ = {**os.environ, **loan.environ(), VARIABLE: told(step, store, times)}
    with (deployment.home / "apply.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "--config", str(deployment.config), "apply", "--json"],
            env=environ,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield child
        where = f"apply to die {step.format(store)}"
        wait_until(lambda: child.poll() is not None, where, 300)
        assert child.returncode == -9, f"{where}: {deployment.log('apply')[-3000:]}"
    finally:
        child.kill()
        child.wait()
        lender.taken_back(loan)


def reached(deployment: Deployment) -> None:
    """Views have all that is committed by now."""
    waited = deployment.run("wait", *names(deployment), "--timeout", "280")
    assert waited.returncode == 0, waited.stderr + deployment.log("apply")[-3000:]


def equal(deployment: Deployment) -> None:
    """All views, once more by an apply that lives."""
    with deployment.running("apply", "--json"):
        reached(deployment)
        for name in names(deployment):
            verified = deployment.run("verify", name)
            assert verified.returncode == 0, verified.stdout + verified.stderr


def streams_again(deployment: Deployment, before: int) -> bool:
    return deployment.log("apply").count("stream_started") > before


@pytest.mark.timeout(1200)  # twenty processes, one after the other
def test_killed_at_each_step_of_a_batch_and_of_each_store_every_view_is_right(
    shop: Deployment, lender: Lender
) -> None:
    with writing(shop.dsn, 11):
        for step, store in OF_A_BATCH:
            with dying(shop, lender, step, store, TIMES):
                pass
    equal(shop)


@pytest.mark.timeout(1200)
def test_killed_at_each_step_of_a_build_the_command_goes_on_and_every_view_is_right(
    shop: Deployment, lender: Lender
) -> None:
    with writing(shop.dsn, 11):
        with shop.running("apply", "--json"):
            reached(shop)
        for step, name in zip(BUILDING, names(shop), strict=True):
            with dying(shop, lender, step, "", 1):
                streams = shop.log("apply").count("stream_started")
                wait_until(partial(streams_again, shop, streams), "the stream")
                with shop.running("view", "rebuild", name) as command:
                    assert command.wait(120) != 0
            with shop.running("apply", "--json"):
                done = shop.run("view", "rebuild", name)
                assert done.returncode == 0, done.stderr
    equal(shop)
