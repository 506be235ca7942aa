"""The whole path of a seed: its views, the ``headwater apply`` that keeps them, and at the end the
comparison of each with its source, by ``headwater verify`` and without it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from cdc.kafka.broker import Broker
from headwater import NotReachedError, StoppedError, Views
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from stack.guardian import Guardian
from tests.chaos.faults.step_kills import told
from tests.chaos.options import Options
from tests.chaos.servers.service import UNREACHABLE, Ready, Service, ServiceError
from tests.chaos.servers.state_database import Embedded, Own, StateDatabase
from tests.chaos.servers.stores import Stores
from tests.chaos.views.altered_columns import is_clear, touched
from tests.chaos.views.contents import compare
from tests.chaos.views.declarations import Kept, kept
from tests.chaos.views.kinds import joins_later, kept_by_database, of_joined
from tests.chaos.views.verify import verified
from tests.support.commands.deployment import Deployment

LONGEST_PAUSE_S: Final = 0.25
STARTING_PAUSE_S: Final = 1.5
"""Of a client, and while Spark starts, which takes long: few rows are enough."""
_REACH_S: Final = 600.0
_BUILT_S: Final = 600.0
_TRIES: Final = 5
_WAIT_S: Final = 5.0
_STEP_S: Final = 30.0
_ENDING_S: Final = 5.0
_STARTED: Final = (b'"event": "view_started"', b'"event": "view_built"')
_APPLIED: Final = (b'"event": "batch_applied"', b'"event": "rows_applied"')
_NEVER: Final = (
    b'"event": "view_stopped"',
    b'"event": "view_not_built"',
    b'"event": "record_not_applied"',
    b'"event": "keys_parked"',
    b'"parked": ',
)
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
        drawn: Options,
    ) -> None:
        self.stores, self.deployment, self._dsn = stores, deployment, dsn
        self._engine, name = drawn.engine, deployment.name
        by_database = self._engine == "database"
        self.views = kept_by_database(name, seed) if by_database else kept(name, seed)
        self._touched = touched(name, seed) if by_database else None
        self.views += [self._touched.view] if self._touched else []
        self._later, self.pause, self._seed = joins_later(name, seed), pause, seed
        self.state: StateDatabase = (
            Own(stores.state, name) if drawn.own_state else Embedded(self._state, name)
        )
        self._beside = ""
        self._random = Random(f"rebuilt {seed}")
        interpreted = Random(f"codegen {seed}").random() < 0.75
        self._spark = {**_SPARK, **(_INTERPRETED if interpreted else {})}
        self.batches = self.rows = self.stops = 0
        """How often the view that DDL touches had to be built anew."""
        ready = Ready(self._all_started, _NEVER, self._may_stop)
        self.apply = Service("apply", deployment, guardian, ready)

    @property
    def _folder(self) -> Path:
        return self.deployment.home

    @property
    def _state(self) -> Path:
        return self._folder / "state"

    def prepare(self) -> None:
        """What the stores need before ``apply`` starts, and the configuration of it."""
        self.stores.prepare(self.deployment.name)
        self.state.prepare()
        self._beside = self.deployment.extra
        self._declare()

    def _declare(self) -> None:
        """Write the configuration, with the views that there are."""
        spark = ", ".join(f'"{name}" = "{value}"' for name, value in self._spark.items())
        self.deployment.extra = (
            f'{self._beside}[apply]\nengine = "{self._engine}"\nstate = "{self._state}"\n'
            f'{self.state.toml()}master = "local[2]"\nretry_s = 600\nspark = {{ {spark} }}\n'
            + self.stores.toml(self.deployment.name, self._folder)
            + "".join(view.toml() for view in self.views)
        )
        self.deployment.write()

    def _all_started(self, said: bytes) -> bool:
        lines = [line for line in said.splitlines() if any(word in line for word in _STARTED)]
        return {one.name for one in self._sure()} <= {json.loads(line)["view"] for line in lines}

    def _may_stop(self, line: bytes) -> bool:
        """Whether it tells of the view that DDL may stop, or of how it could not be built."""
        return self._touched is not None and self._touched.is_told(line)

    def _sure(self) -> list[Kept]:
        """Views that nothing may stop."""
        return [one for one in self.views if self._touched is None or one != self._touched.view]

    def applied(self) -> int:
        """How many batches, or turns of views, apply has told of."""
        log = self.apply.log.read_bytes()
        return sum(log.count(word) for word in _APPLIED)

    def take_in_joined(self) -> None:
        """Declare a view of the table that has joined, once; apply builds it by itself."""
        view = of_joined(self.deployment.name, self._seed)
        if self._engine == "database" and view not in self.views:
            self.views.append(view)
            self._declare()

    def create(self, lasts_s: float) -> None:
        """Declare one more view, and have the running apply build it, unless that does so first."""
        if self._later not in self.views:
            self.views.append(self._later)
            self._declare()
        self.pause(lasts_s)
        self._command("create", self._later.name)

    def drop_and_declare(self, lasts_s: float) -> None:
        """Drop a view, and declare it anew when apply has let go of it."""
        view = self._random.choice(self.current())
        self._command("drop", view.name)
        self.views.remove(view)
        self._declare()
        self.pause(1.0 + lasts_s)
        self.views.append(view)
        self._declare()
        self._command("create", view.name)

    def kill_apply_at(self, step: str, store: str, times: int) -> None:
        """It is started anew, kills itself where the step is reached for the so-manieth time, and
        is started again."""
        self.apply.kill()
        self.apply.start(told(step, store, times))
        self.apply.await_own_kill(self.pause, _STEP_S)
        self.apply.start()

    def kill_apply_building(self, step: str) -> None:
        """The same while a command has it build a view; then the command is run again."""
        view = self._random.choice(self.current())
        self.apply.kill()
        self.apply.start(told(step, "", 1))
        self.apply.await_ready()
        with self.deployment.running("view", "rebuild", view.name):
            self.apply.await_own_kill(self.pause, _STEP_S)
        self.apply.start()
        self._command("rebuild", view.name)

    def current(self) -> list[Kept]:
        """Views of which the store holds the current rows; a history is not built anew."""
        return [view for view in self._sure() if not view.history]

    def rebuild(
        self, store: str | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Build the next generation of a view, of one in ``store`` if that is given, beside the one
        that apply keeps. ``meanwhile`` is done when the snapshot was read and the store is filled.

        What ended because a server was away is run again: it goes on where it was. Raises
        ``ServiceError`` for any other end.
        """
        views = [one for one in self.current() if store in (None, one.store)]
        self._command("rebuild", self._random.choice(views or self.current()).name, meanwhile)

    def _command(self, verb: str, view: str, meanwhile: Callable[[], None] | None = None) -> None:
        for _ in range(_TRIES):
            said_yes = ["--yes"] if verb == "drop" else []
            with self.deployment.running("view", verb, view, *said_yes) as child:
                deadline = time.monotonic() + _BUILT_S
                while child.poll() is None and time.monotonic() < deadline:
                    if meanwhile is not None and self._is_filled(view):
                        meanwhile()
                        meanwhile = None
                    self.pause(0.05)
                code = child.poll()
            if code == 0:
                return
            said = self.deployment.log("view").strip().splitlines()
            if code == 1 and not (said and UNREACHABLE.search(said[-1])):
                self.pause(_ENDING_S)  # where apply is ending, that is what is wrong
                break
        raise ServiceError(f"view {verb} {view} ended with {code}: {' '.join(said[-3:])}")

    def _is_filled(self, view: str) -> bool:
        directory = view_directory(str(self._state), self.deployment.name, view)
        building = read_generations(directory).building
        return building is not None and (
            self._engine == "database" or building.phase == "snapshotted"
        )

    def check(self, lsn: int) -> list[str]:
        """What is wrong with the views when all of them hold what was committed below ``lsn``.

        Nobody writes any more; capture runs, for ``verify`` has it publish up to its own LSN.
        """
        self.stores.recover()
        self.state.recover()
        self.apply.start()
        self._await(lsn, self._sure())
        self._await_touched(lsn)
        # What its columns are called now is known to the state database, which apply may run.
        touched = [self._touched.view.name] if self._touched is not None else []
        verdicts = verified(touched, self.deployment)
        code = self.apply.stop()
        findings = [] if code == 0 else [f"SIGTERM to an apply at rest: exit code {code}"]
        findings += self.apply.wrong()
        self.batches = self.applied()
        for view in self.views:
            if self._touched is not None and view == self._touched.view:
                view = self._touched.renamed(self._dsn)
            rows, differing = compare(view, self.stores, self._dsn, self._folder)
            self.rows += rows
            findings += differing
        others = [view.name for view in self.views if view.name not in touched]
        return findings + verdicts + verified(others, self.deployment)

    def _await_touched(self, lsn: int) -> None:
        """The view that DDL touched goes on, or says why it does not; then it is built anew, by
        what its columns are called now."""
        if self._touched is None:
            return
        view = self._touched.view
        try:
            self._await(lsn, [view])
            return
        except StoppedError:
            pass
        self.stops += 1
        renamed = self._touched.renamed(self._dsn)
        self.views[self.views.index(view)] = renamed
        self._touched = self._touched._replace(view=renamed)
        self._declare()
        try:
            self._command("rebuild", view.name)
        except ServiceError as error:
            if "view create" not in str(error):
                raise
            self._command("create", view.name)  # it was never built
        self._await(lsn, [renamed])

    def _is_touched(self, views: Sequence[Kept], said: str) -> bool:
        """Whether it is the one that DDL may stop, and says so clearly."""
        return self._touched is not None and views == [self._touched.view] and is_clear(said)

    def _await(self, lsn: int, views: Sequence[Kept]) -> None:
        deadline = time.monotonic() + _REACH_S
        with Views(self.deployment.config) as waiting:
            while True:
                try:
                    waiting.wait(*(view.name for view in views), lsn=lsn, timeout_s=_WAIT_S)
                    return
                except (NotReachedError, StoppedError) as error:
                    if isinstance(error, StoppedError) and self._is_touched(views, str(error)):
                        raise
                    if wrong := self.apply.wrong():
                        raise ServiceError("\n".join(wrong)) from None
                    if time.monotonic() > deadline:
                        raise
                self.pause(0.05)

    def clear(self) -> None:
        """Nothing is left, but for the folder."""
        self.stores.recover()
        self.state.recover()
        self.state.clear()
        self.stores.clear(self.deployment.name)
        with Broker(self.deployment.bootstrap) as broker:
            broker.delete_topics(broker.topics(f"{self.deployment.name}_"))
