"""The whole path of a seed: its views, the ``headwater apply`` that keeps them, and at the end the
comparison of each with its source, by ``headwater verify`` and without it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from cdc.kafka.broker import Broker
from headwater import NotReachedError, StoppedError, Views
from jobs.generations import read_generations
from jobs.view_state import view_directory
from stack.guardian import Guardian
from tests.chaos.compare import compare
from tests.chaos.service import UNREACHABLE, Ready, Service, ServiceError
from tests.chaos.stores import Stores
from tests.chaos.views import Kept, kept
from tests.deployment import Deployment

LONGEST_PAUSE_S: Final = 0.25
STARTING_PAUSE_S: Final = 1.5
"""Of a client, and while Spark starts, which takes long: few rows are enough."""
_REACH_S: Final = 600.0
_BUILT_S: Final = 600.0
_TRIES: Final = 5
_WAIT_S: Final = 5.0
_STARTED: Final = b'"event": "view_started"'
_APPLIED: Final = b'"event": "batch_applied"'
_NEVER: Final = (b'"event": "view_stopped"', b'"event": "keys_parked"')
"""Each view is kept, and every event can be applied."""
_SPARK: Final = {
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "1",
}
_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""In most seeds: a few rows are computed sooner than code for them is compiled."""
_JVM: Final = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"}
"""Spark lives for a minute: its second compiler would be half of the CPU that it takes."""


class WholePath:
    """Of one seed. ``batches`` and ``rows`` count what was applied and compared. ``pause`` lets
    time pass, and starts again what has ended meanwhile."""

    def __init__(
        self,
        stores: Stores,
        deployment: Deployment,
        dsn: str,
        seed: int,
        guardian: Guardian,
        pause: Callable[[float], None],
    ) -> None:
        self.stores, self._deployment, self._dsn = stores, deployment, dsn
        self.views, self.pause = kept(deployment.name, seed), pause
        self._random = Random(f"rebuilt {seed}")
        interpreted = Random(f"codegen {seed}").random() < 0.75
        self._spark = {**_SPARK, **(_INTERPRETED if interpreted else {})}
        self.batches = self.rows = 0
        deployment.environment |= _JVM
        ready = Ready(_STARTED, len(self.views), _NEVER)
        self.apply = Service("apply", deployment.config, guardian, ready, **_JVM)

    @property
    def _folder(self) -> Path:
        return self._deployment.home

    @property
    def _state(self) -> Path:
        return self._folder / "state"

    def toml(self) -> str:
        """Further sections of the configuration."""
        spark = ", ".join(f'"{name}" = "{value}"' for name, value in self._spark.items())
        return (
            f'[apply]\nstate = "{self._state}"\nmaster = "local[2]"\nretry_s = 600\n'
            f"spark = {{ {spark} }}\n"
            + self.stores.toml(self._deployment.name, self._folder)
            + "".join(view.toml() for view in self.views)
        )

    def prepare(self) -> None:
        """What the stores need before ``apply`` starts."""
        self.stores.prepare(self._deployment.name)

    def rebuild(
        self, store: str | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Build the next generation of a view, of one in ``store`` if that is given, beside the one
        that apply keeps. ``meanwhile`` is done when the snapshot was read and the store is filled.

        What ended because a server was away is run again: it goes on where it was. Raises
        ``ServiceError`` for any other end.
        """
        view = self._random.choice([one for one in self.views if store in (None, one.store)])
        for _ in range(_TRIES):
            with self._deployment.running("view", "rebuild", view.name) as child:
                deadline = time.monotonic() + _BUILT_S
                while child.poll() is None and time.monotonic() < deadline:
                    if meanwhile is not None and self._is_filled(view):
                        meanwhile()
                        meanwhile = None
                    self.pause(0.05)
                code = child.poll()
            if code == 0:
                return
            said = self._deployment.log("view").strip().splitlines()
            if code == 1 and not (said and UNREACHABLE.search(said[-1])):
                break
        raise ServiceError(f"view rebuild {view.name} ended with {code}: {' '.join(said[-3:])}")

    def _is_filled(self, view: Kept) -> bool:
        directory = view_directory(str(self._state), self._deployment.name, view.name)
        building = read_generations(directory).building
        return building is not None and building.phase == "read"

    def check(self, lsn: int) -> list[str]:
        """What is wrong with the views when all of them hold what was committed below ``lsn``.

        Nobody writes any more; capture runs, for ``verify`` has it publish up to its own LSN.
        """
        self.stores.recover()
        self.apply.start()
        self._await(lsn)
        code = self.apply.stop()
        findings = [] if code == 0 else [f"SIGTERM to an apply at rest: exit code {code}"]
        findings += self.apply.wrong()
        self.batches = self.apply.log.read_bytes().count(_APPLIED)
        for view in self.views:
            rows, differing = compare(view, self.stores, self._dsn, self._folder)
            self.rows += rows
            findings += differing + self._verified(view.name)
        return findings

    def _await(self, lsn: int) -> None:
        deadline = time.monotonic() + _REACH_S
        with Views(self._deployment.config) as waiting:
            while True:
                try:
                    waiting.wait(*(view.name for view in self.views), lsn=lsn, timeout_s=_WAIT_S)
                    return
                except (NotReachedError, StoppedError):
                    if wrong := self.apply.wrong():
                        raise ServiceError("\n".join(wrong)) from None
                    if time.monotonic() > deadline:
                        raise
                self.pause(0.05)

    def _verified(self, view: str) -> list[str]:
        done = self._deployment.run("verify", view, "--json", "--timeout", "120", "--limit", "3")
        if done.returncode == 0 and json.loads(done.stdout)["equal"]:
            return []
        return [f"headwater verify {view}: {done.returncode}: {done.stdout}{done.stderr}"]

    def clear(self) -> None:
        """Nothing is left, but for the folder."""
        self.stores.recover()
        self.stores.clear(self._deployment.name)
        with Broker(self._deployment.bootstrap) as broker:
            broker.delete_topics(broker.topics(f"{self._deployment.name}_"))
