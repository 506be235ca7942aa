"""A driver of views that is killed, with SIGKILL, between two steps of a micro-batch.

``STEPS`` names the steps, as they are in the code, and ``Driver`` is ``apply_views`` in a process
of its own that stops before or behind some of them: where each view that was given a point has
reached it, the process kills itself. So one kill serves several views, each at a place of its own.

It is the Python process that dies, as it is: nothing of it is undone or finished. The JVM is that
of the test's session, lent (``tests.support.servers.lent_jvm``), as a start of Spark costs as much
as many kills. With a whole ``kill -9`` (``tests/integration/headwater/test_apply_command.py``,
``tests/chaos``) it goes too, and to what is kept that is the same: the JVM writes to a checkpoint,
a store or Kafka only what Python asks for, but for the plan of a batch before Python is given it,
and its commit once Python has returned. What it remembers of a dead driver is taken from it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from tests.support.servers.lent_jvm import Loan, attached
from tests.support.waiting import wait_until

STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "batch": ("jobs.without_mirrors.query:ViewQuery._run",),
    "letters": ("jobs.without_mirrors.dead_letters.topic:LetterBox.write",),
    "letters noted": ("jobs.generations.view_state:ViewState.remember_letters",),
    "letters sent": ("jobs.without_mirrors.dead_letters.topic:LetterBox._send",),
    "attempt": ("jobs.delta_engine.maintainer:write_attempts",),
    "mirror": ("jobs.delta_engine.mirrors.mirror:Mirror.append",),
    "touched": ("jobs.delta_engine.touched_keys:TouchedKeys.keep",),
    "truncate noted": ("jobs.generations.view_state:ViewState.remember_truncated",),
    "store": (
        "jobs.sinks.delta.sink:DeltaSink.apply",
        "jobs.sinks.opensearch.sink:OpenSearchSink.apply",
        "jobs.sinks.postgres.sink:PostgresSink.apply",
        "jobs.sinks.redis.sink:RedisSink.apply",
    ),
    "refresh": ("jobs.sinks.opensearch.sink:OpenSearchSink._refresh",),
    "merge here": ("jobs.sinks.delta.sink:merge",),
    "merge by spark": ("jobs.sinks.delta.sink:DeltaSink._merge",),
    "store truncated": (
        "jobs.sinks.delta.sink:DeltaSink.truncate",
        "jobs.sinks.postgres.sink:PostgresSink.truncate",
        "jobs.sinks.redis.sink:RedisSink.truncate",
    ),
    "touched cleared": ("jobs.delta_engine.touched_keys:TouchedKeys.clear",),
    "letters settled": ("jobs.without_mirrors.dead_letters.topic:LetterBox.settle",),
    "group": ("cdc.kafka.broker.client:Broker.commit_group",),
}
"""What a micro-batch is made of, in about that order, as ``module:function``. A batch is planned by
Spark before ``batch`` and committed behind it; ``group`` follows on the view's own thread."""
_GROUP: Final = "headwater."
_PRELOADED: Final = (
    *(
        "jobs.without_mirrors.views",
        "jobs.without_mirrors.single_table",
        "jobs.delta_engine.keeper",
        "jobs.spark.text_udf",
        "cdc.logs",
    ),
    *(place.partition(":")[0] for places in STEPS.values() for place in places),
    *(
        "jobs.sinks.delta.delta_reader",
        "deltalake",
        "pyarrow.parquet",
        "pytest",
        "tests.support.commands.killed_drivers",
    ),
)


class Driver:
    """``headwater apply`` of all views of a configuration, until it is killed.

    A batch of a view above number ``held[view]`` waits until the driver is armed.
    """

    def __init__(
        self,
        loan: Loan,
        config: Mapping[str, Any],
        home: Path,
        held: Mapping[str, int] | None = None,
    ) -> None:
        self.loan = loan
        self._home, self._held = home, dict(held or {})
        for name in ("armed.json", *map(_holding, self._held)):
            (home / name).unlink(missing_ok=True)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(_PRELOADED))
        self._process: ForkServerProcess = context.Process(
            target=_drive, args=(loan, config, home, self._held), daemon=True
        )
        self._process.start()

    def holds(self) -> bool:
        """Whether all that it is to hold is there. Raises when the driver has ended."""
        self.check()
        return all((self._home / _holding(view)).exists() for view in self._held)

    def arm(self, points: Mapping[str, str]) -> None:
        """Let it go on, and kill itself where each of these views is at its point, as
        ``after store#1``."""
        fresh = self._home / "armed.new"
        fresh.write_text(json.dumps(dict(points)))
        fresh.replace(self._home / "armed.json")

    def check(self) -> None:
        """Raises when it has ended."""
        assert self._process.is_alive(), f"{self._process.exitcode}: {self.said()[-3000:]}"

    def killed(self, points: Mapping[str, str], timeout_s: float = 400) -> None:
        """Wait until it has killed itself."""
        self._process.join(timeout_s)
        where = f"{dict(points)}, {traced(self._home)[-40:]}: {self.said()[-3000:]}"
        assert self._process.exitcode == -signal.SIGKILL, f"{self._process.exitcode} at {where}"

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.join()

    def said(self) -> str:
        """The log, of all drivers so far."""
        file = self._home / "driver.log"
        return file.read_text() if file.exists() else ""


def _holding(view: str) -> str:
    return f"holding-{view}"


def traced(home: Path) -> list[str]:
    """Every point that was passed, as ``view: before step#1``, in all drivers so far."""
    return (home / "trace").read_text().splitlines()


def _drive(loan: Loan, config: Mapping[str, Any], home: Path, held: Mapping[str, int]) -> None:
    """The driver's process."""
    from cdc.config import Config
    from cdc.logs import configure
    from jobs.without_mirrors.views import apply_views

    out = os.open(home / "driver.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for number in (1, 2):
        os.dup2(out, number)
    configure(json_lines=True)
    _wrap(_Killer(home, held))
    found = Config.model_validate(config)
    failed = apply_views(attached(loan), found, list(found.views), threading.Event())
    print("it has ended:", {view: str(error) for view, error in failed.items()}, flush=True)
    os._exit(3)


class _Killer:
    """Ends this process when each armed view is at its point."""

    def __init__(self, home: Path, held: Mapping[str, int]) -> None:
        self._home, self._held, self._armed = home, held, home / "armed.json"
        self._trace = os.open(home / "trace", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._lock, self._there = threading.Lock(), set[str]()
        self._local = threading.local()

    def number(self, step: str, arguments: tuple[Any, ...]) -> tuple[str, int] | None:
        """Of which view a step is, and how often its batch had it; None if it is of no batch."""
        if step == "group":
            return arguments[1].removeprefix(_GROUP), 1
        if step == "batch":
            self._local.view = view = arguments[0]._definition.name
            self._local.counts = Counter[str]()
            if arguments[2] > self._held.get(view, arguments[2]):
                (self._home / _holding(view)).touch()
                wait_until(self._armed.exists, "the driver to be armed", 600)
        view = getattr(self._local, "view", None)
        if view is None:
            return None
        self._local.counts[step] += 1
        return view, self._local.counts[step]

    def reached(self, view: str, point: str) -> None:
        """Tell, and at the point of an armed view go no further."""
        os.write(self._trace, f"{view}: {point}\n".encode())
        armed = json.loads(self._armed.read_text()) if self._armed.exists() else {}
        if armed.get(view) != point:
            return
        with self._lock:
            self._there.add(view)
            if self._there == armed.keys():
                os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()


def _wrap(killer: _Killer) -> None:
    """Around each step. A name that is no more is an error."""
    for step, places in STEPS.items():
        for place in places:
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner: Any = import_module(module)
            for one in owners:
                owner = getattr(owner, one)
            setattr(owner, name, _told(killer, step, getattr(owner, name)))


def _told(killer: _Killer, step: str, real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def run(*arguments: Any, **named: Any) -> Any:
        found = killer.number(step, arguments)
        if found is None:
            return real(*arguments, **named)
        view, number = found
        killer.reached(view, f"before {step}#{number}")
        answer = real(*arguments, **named)
        killer.reached(view, f"after {step}#{number}")
        return answer

    return run
