"""A build of a view, killed between any two steps, and killed again as it goes on: readers see one
generation or the other, and the next build goes on or begins anew, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.support.commands.deployment import Deployment
from tests.support.commands.kill_points import killing
from tests.support.servers.lent_jvm import Lender
from tests.support.servers.postgres import fresh_database

POINTS = (
    "before jobs.run.builds.generation_files:GenerationFiles.begin",
    "before jobs.run.builds.view_build:begin",
    "before jobs.sinks.redis.generations:RedisGenerations.load",
    "after jobs.sinks.redis.generations:RedisGenerations.load",
    "before jobs.run.builds.builder:note_loaded",
    "before jobs.run.builds.generation_files:GenerationFiles.loaded",
    "after jobs.run.builds.generation_files:GenerationFiles.loaded",
    "before jobs.sinks.redis.generations:RedisGenerations.switch",
    "after jobs.sinks.redis.generations:RedisGenerations.switch",
    "after jobs.run.builds.generation_files:GenerationFiles.switch",
    "before jobs.run.views.view_registry:drop_expired",
    "before jobs.sinks.redis.generations:RedisGenerations.drop",
    "after jobs.sinks.redis.generations:RedisGenerations.drop",
    "before jobs.run.removal:forget_view",
)
"""Between any two of them in their order something is written that outlives the process."""
TWICE = tuple(zip(POINTS[: len(POINTS) // 2], POINTS[len(POINTS) // 2 :], strict=True))
"""A build, and where the one is killed that goes on with it."""
KEPT = 1
ROWS = 30


@dataclass(slots=True)
class Built:
    """The view ``v``, whose word says which declaration a generation has."""

    deployment: Deployment
    redis_url: str
    word: int = 0

    @property
    def name(self) -> str:
        return f"{self.deployment.name}_v"

    @property
    def sql(self) -> str:
        return f"select id, name, {self.word} as word from item"

    def declare(self) -> None:
        self.deployment.extra = (
            f'[stores.cache]\nkind = "redis"\nurl = "{self.redis_url}"\n'
            f'[apply]\nstate = "{self.deployment.home / "state"}"\nkeep_generations = {KEPT}\n'
            f'[views.{self.name}]\nstore = "cache"\nkey = ["id"]\nsql = "{self.sql}"\n'
        )

    def rebuilt(self, verb: str = "rebuild") -> int:
        done = self.deployment.run("view", verb, self.name, "--json")
        assert done.returncode == 0, done.stderr
        (built,) = json.loads(done.stdout)
        assert built["live"]
        return int(built["generation"])

    def killed(self, point: str) -> None:
        self.deployment.environment = killing(point)
        try:
            done = self.deployment.run("view", "rebuild", self.name)
        finally:
            self.deployment.environment = {}
        assert done.returncode == -signal.SIGKILL, f"{point}: {done.stdout}{done.stderr}"

    def shown(self) -> dict[int, tuple[str, int]]:
        """What readers see."""
        client = self._client()
        rows = client.get(f"{self.name}@live")
        found = [json.loads(client.hget(key, "doc")) for key in client.scan_iter(f"{rows}:*")]
        return {one["id"]: (one["name"], one["word"]) for one in found}

    def held(self) -> set[int]:
        """The generations that the store has something of."""
        names = self._client().scan_iter(f"*{self.name}@*")
        return {int(name.partition("@")[2].partition(":")[0]) for name in names
                if not name.endswith("@live")}  # fmt: skip

    def expected(self) -> dict[int, tuple[str, int]]:
        with psycopg.connect(self.deployment.dsn) as conn:
            rows = conn.execute(f"select id, name, word from ({self.sql}) v".encode()).fetchall()
        return {id_: (name, word) for id_, name, word in rows}

    def _client(self) -> Any:
        return redis.Redis.from_url(self.redis_url, decode_responses=True)


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
) -> Iterator[Built]:
    home: Path = tmp_path_factory.mktemp("builds")
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(postgres))
        deployment = Deployment(home, f"t{os.urandom(5).hex()}", source, kafka, jvm=lender)
        deployment.execute(
            "create table item (id int primary key, name text not null)",
            f"insert into item select i, 'item ' || i from generate_series(1, {ROWS}) i",
        )
        deployment.init()
        stack.enter_context(deployment.running("capture"))
        made = Built(deployment, redis_server)
        made.declare()
        made.rebuilt("create")
        made.word = 1
        made.declare()
        made.rebuilt()  # from now on each build has one to drop
        yield made


@pytest.mark.parametrize("points", TWICE, ids=" then ".join)
def test_killed_between_any_two_steps_nothing_half_is_shown_and_the_next_build_ends(
    built: Built, points: tuple[str, str]
) -> None:
    before = built.expected()
    assert built.shown() == before
    built.word += 1
    built.declare()
    for point in points:
        built.killed(point)
        assert built.shown() in (before, built.expected()), "readers see something half"
    built.deployment.execute("update item set name = name || '.' where id % 7 = 1")
    built.deployment.captured()
    live = built.rebuilt()
    done = built.deployment.run("apply", "--available-now")
    assert done.returncode == 0, done.stderr
    assert built.shown() == built.expected()
    assert len(built.held()) <= 1 + KEPT
    assert live == max(built.held())


def test_generations_that_are_kept_no_longer_are_dropped(built: Built) -> None:
    live = 0
    for _ in range(2):
        built.word += 1
        built.declare()
        live = built.rebuilt()
    assert built.held() == {live - 1, live}
