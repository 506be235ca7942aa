"""Ten views of a shop under load: CPU, memory, freshness, and new views meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.capture.process import capturing, slot_of
from benchmarks.capture.slots import drop_slot
from benchmarks.environment import Setting, headwater
from benchmarks.many.deployment import SOURCE, Place, make, remove
from benchmarks.many.figures import MANY_RATES
from benchmarks.many.footprint import footprint_figures
from benchmarks.many.group_change import measure_group_change
from benchmarks.many.idle import measure_idle
from benchmarks.many.load import Load, loading
from benchmarks.many.probes import Probes, looking, sending
from benchmarks.many.readers import looks
from benchmarks.many.results import Phase, build_figures, phase_figures
from benchmarks.many.shop import FULL, Sizes
from benchmarks.many.usage import Processes, processes, using
from benchmarks.many.views import BUILT, VIEWS, View, view_lines
from benchmarks.report.metrics import ROWS
from cdc.errors import FatalError
from stack.child_process import Process, tail

SECONDS: Final = 120
WARM_UP_S: Final = 60
"""Not counted: a JVM compiles what it does again and again."""
_DRAIN_S: Final = 60.0
"""So long after the time that is measured its last probes are waited for, under the same load."""
_PROBES_PER_S: Final = 2.0
_PROBE_SHARE: Final = 1 / 6
"""Of all transactions, at most."""
_READY_S: Final = 600.0
_CREATE_S: Final = 1_800.0
_BUILD_S: Final = 900.0
_POLL_S: Final = 0.2


class Plan(NamedTuple):
    """How long and how large; ``builds`` are the views that are built under the first rate."""

    rates: tuple[int, ...]
    warm_up_s: int
    seconds: int
    builds: tuple[View, ...]
    sizes: Sizes
    engine: str = "database"
    """Of ``[apply]``."""


class Run(NamedTuple):
    """A shop whose views are kept."""

    place: Place
    plan: Plan
    probes: Probes
    process: Process
    parts: Mapping[str, Processes]

    def follow(self, what: str, seconds: float, checks: Callable[[], None]) -> Iterator[float]:
        """Seconds since the beginning, several times a second, until they are over.

        Raises ``FatalError`` when anything that has to run has ended.
        """
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            self.process.check()
            self.probes.check()
            checks()
            self.place.setting.watch(what, passed / seconds)
            yield passed
            time.sleep(_POLL_S)


def measure_many(setting: Setting) -> dict[str, float]:
    """All figures of ``many``; a trial has fewer rows and is shorter."""
    part = min(1.0, setting.rows / ROWS)
    seconds, warm_up_s = setting.scaled(SECONDS, 10), setting.scaled(WARM_UP_S, 5)
    return measured(setting, Plan(MANY_RATES, warm_up_s, seconds, BUILT, FULL.scaled(part)))


def measured(setting: Setting, plan: Plan) -> dict[str, float]:
    """The figures of what a plan names."""
    place = make(setting, plan.sizes, plan.engine)
    names = [view.name for view in VIEWS]
    with capturing(place.setting, SOURCE) as capture:
        figures = {"many_create_all_s": _created(place, names, "create-all", _CREATE_S)}
        with _applying(place) as process, _observed(place) as probes:
            pids = capture.process.pid, process.pid
            run = Run(place, plan, probes, process, processes(setting.home, *pids, place.state))
            _await_ready(run)
            figures |= _idle(run)
            for number, rate in enumerate(plan.rates):
                figures |= _phase(run, rate, () if number else plan.builds)
                text = json.dumps(figures, indent=2)  # another rate may fail
                (setting.home / "many.json").write_text(f"{text}\n", encoding="utf-8")
        figures |= measure_idle(place, capture.process.pid, plan.sizes)
    with place.setting.connect() as conn:
        drop_slot(conn, slot_of(SOURCE))
    remove(place)
    return figures | measure_group_change(setting)


def _created(place: Place, views: list[str], log: str, timeout_s: float) -> float:
    """Seconds of ``headwater view create``, as who runs it waits for it."""
    began = time.monotonic()
    headwater(place.setting, SOURCE, "view", "create", *views, log=log, timeout_s=timeout_s)
    return time.monotonic() - began


@contextmanager
def _applying(place: Place) -> Iterator[Process]:
    """``headwater apply`` of all views; stopped at the end."""
    setting = place.setting
    command = ["--config", str(setting.config(SOURCE)), "apply", "--json"]
    log = setting.log(f"apply-{SOURCE}")
    process = Process(f"headwater apply of {SOURCE}", command, log, setting.guardian)
    process.start()
    try:
        yield process
    finally:
        process.ask_to_stop()
        process.stop()


@contextmanager
def _observed(place: Place) -> Iterator[Probes]:
    probes, found = Probes(view.name for view in VIEWS), place.stores
    with (
        looks(
            VIEWS, found.redis_url, found.opensearch_url, place.reports_dsn, place.lake
        ) as of_stores,
        looking(probes, of_stores),
    ):
        yield probes


def _await_ready(run: Run) -> None:
    """Until every view shows a probe. ``FatalError`` when one does not."""
    with run.place.setting.connect() as conn:
        run.probes.send(conn)
    for _ in run.follow("apply starts", _READY_S, lambda: None):
        if not run.probes.missing(time.monotonic_ns()):
            return
    lacking = ", ".join(run.probes.missing(time.monotonic_ns()))
    raise FatalError(f"{run.process.name}: not kept: {lacking}\n{tail(run.process.log)}")


def _idle(run: Run) -> dict[str, float]:
    """What all of it takes while nobody writes."""
    for _ in run.follow("ten views settle", run.plan.warm_up_s, lambda: None):
        pass
    with using(run.parts) as usage:
        for _ in run.follow("ten idle views", run.plan.seconds / 2, lambda: None):
            pass
    return footprint_figures("ten_idle", usage.taken)


def _phase(run: Run, rate: int, builds: tuple[View, ...]) -> dict[str, float]:
    """One rate: probes are transactions of it, too."""
    place, plan, setting = run.place, run.plan, run.place.setting
    probes_per_s = min(_PROBES_PER_S, rate * _PROBE_SHARE)
    log = setting.log(f"load-{rate}")
    figures: dict[str, float] = {}
    with loading(setting.dsn, rate - probes_per_s, plan.sizes, rate, log) as load:
        with sending(run.probes, setting.dsn, probes_per_s):
            phase = _window(run, rate, load)
        if builds:
            figures = build_figures(_built(place, load, builds))
    probes = len(next(iter(phase.waits_ms.values())))
    return figures | phase_figures(
        phase._replace(rate_per_s=load.rate_per_s + probes / plan.seconds)
    )


def _window(run: Run, rate: int, load: Load) -> Phase:
    """Warm up, measure, and wait a while for what is on its way; the rate is not known yet."""
    said, plan = f"{rate} transactions a second", run.plan
    for _ in run.follow(f"{said}: warming up", plan.warm_up_s, load.check):
        pass
    begin = time.monotonic_ns()
    with using(run.parts) as usage:
        for _ in run.follow(said, plan.seconds, load.check):
            pass
    end = time.monotonic_ns()
    for _ in run.follow(f"{said}: the last ones arrive", _DRAIN_S, load.check):
        if not run.probes.missing(end):
            break
    waits = {view.name: run.probes.waits_ms(view.name, begin, end) for view in VIEWS}
    missing = sum(run.probes.missing(end).values())
    return Phase(rate, 0.0, usage.taken, waits, missing, _behind(run.place))


def _behind(place: Place) -> int:
    """Records that views have not applied, all together. ``FatalError`` when one has stopped, for
    which `headwater lag` fails."""
    names = [view.name for view in VIEWS]
    answer = headwater(
        place.setting, SOURCE, "lag", *names, "--json", log="lag", timeout_s=_READY_S
    )
    lag = json.loads(answer)
    return sum(of_view["behind_records"] for of_view in lag["views"])


def _built(place: Place, load: Load, views: Sequence[View]) -> Mapping[str, float]:
    """Seconds of a new view in each store; each is dropped again."""
    took, config = {}, place.setting.config(SOURCE)
    declared = config.read_text(encoding="utf-8")
    for view in views:
        _declare(config, declared, "\n".join(view_lines([view])))
        took[view.store] = _created(place, [view.name], view.name, _BUILD_S)
        load.check()
        headwater(
            place.setting,
            SOURCE,
            "view",
            "drop",
            view.name,
            "--yes",
            log="drop",
            timeout_s=_BUILD_S,
        )
    _declare(config, declared)
    return took


def _declare(config: Path, *parts: str) -> None:
    """Write a configuration at once: ``headwater apply`` may read it at any moment."""
    scratch = config.with_suffix(".new")
    scratch.write_text("\n".join([*parts, ""]), encoding="utf-8")
    scratch.replace(config)
