"""A soak: the shop of ``benchmarks.many``, its ten views in all stores, and a fault each minute."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from math import inf
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import psycopg

from benchmarks import process_usage
from benchmarks.many.shop import FULL, TABLES, row_sql
from benchmarks.many.views import VIEWS, store_lines, view_lines
from benchmarks.views.process import events
from cdc.alarms.rules import prometheus_rules
from cdc.errors import HeadwaterError
from headwater import NotReachedError, StoppedError, Views
from stack.child_process import Process
from stack.ports import free_port
from stack.postgres import NEWEST
from tests.chaos.servers.environment import Setting, connect, database, settings
from tests.chaos.servers.state_database import Embedded
from tests.chaos.views.verify import verified
from tests.soak.faults import FAULTS, Target, plan
from tests.soak.growth import Sample, growth
from tests.soak.load import Load
from tests.soak.picture import Fault
from tests.soak.samples import Measured, Sampler
from tests.support.commands.deployment import Deployment
from tests.support.servers.prometheus import Prometheus
from tests.support.waiting import wait_until

NAME: Final = "soak"
FIRST_FAULT_S: Final = 20.0
"""Of each minute; samples of before and after are of the same minute."""
_RATE_PART: Final = 0.8
"""So much of the load has to be committed, though the source is away at times."""
_QUIET_LAG_S: Final = 10.0
"""Views that nothing disturbs may not be told to be later than that, most of the time."""
_REACH_S: Final = 600.0
_WAIT_S: Final = 5.0
_POLL_S: Final = 0.5
_SEARCH: Final = '"translog.flush_threshold_size" = "8mb"'
"""By default OpenSearch keeps up to 512 MB of what it was sent to apply it anew after a kill: all
that came since the last one, some minutes of work on a busy machine."""
_NEVER: Final = (
    "view_stopped",
    "view_not_built",
    "record_not_applied",
    "keys_parked",
    "history_rows_left_out",
)
_VIEWS: Final = [view.name for view in VIEWS]
Watch = Callable[[str], None]
"""Hears what is being done."""


class Work(NamedTuple):
    """What a soak is told to do. ``quiet``: no faults, and no alarm may fire."""

    minutes: int
    rate_per_s: float
    seed: int
    quiet: bool = False


class Soaked(NamedTuple):
    """What was measured and found. ``transactions`` were committed, ``failed`` ones met a source
    that was away."""

    work: Work
    samples: Sequence[Sample]
    faults: Sequence[Fault]
    transactions: int
    failed: int
    findings: Sequence[str]


def soak(home: Path, work: Work, watch: Watch) -> Soaked:
    """Run it on servers of its own below ``home``, where logs and states stay."""
    watch("starting servers")
    with settings(home, [NEWEST], stores=True) as found:
        deployed = _deploy(found[NEWEST])
        with _running(deployed, watch):
            return _under_load(deployed, work, watch)


class _Deployed(NamedTuple):
    target: Target
    deployment: Deployment
    measured: Measured
    ports: Sequence[int]
    """Of the metrics."""


def _deploy(setting: Setting) -> _Deployed:
    """A shop that is full, published, and its views declared."""
    stores = setting.stores
    assert stores is not None, "they were asked for"
    stores.prepare(NAME)
    folder, dsn = setting.home / NAME, database(setting.postgres_dsn, NAME)
    folder.mkdir()
    with connect(setting.postgres_dsn) as conn:
        conn.execute(f"create database {NAME}".encode())
    with connect(dsn) as conn:
        conn.execute(TABLES.encode())
        for _, statement in row_sql(FULL):
            conn.execute(statement.encode())
    state, lake = folder / "state", folder / "lake"
    ports = [free_port(set())]
    ports.append(free_port({*ports}))
    reports = urlsplit(stores.proxied["postgres"])._replace(path=f"/{NAME}").geturl()
    places = (stores.proxied["redis"], stores.proxied["opensearch"], reports, str(lake))
    lines = (
        f'[metrics]\ncapture = "127.0.0.1:{ports[0]}"\napply = "127.0.0.1:{ports[1]}"',
        f'[apply]\nstate = "{state}"',
        *store_lines(*places),
        *view_lines(VIEWS),
        *(f"[views.{view.name}.settings]\n{_SEARCH}" for view in VIEWS if view.store == "search"),
    )
    deployment = Deployment(
        folder,
        NAME,
        database(setting.proxied_dsn, NAME),
        setting.proxied_bootstrap,
        extra="\n".join(lines),
    )
    done = deployment.run("init", "--no-snapshot")
    assert done.returncode == 0, done.stderr

    def command(verb: str) -> Process:
        arguments = ["--config", str(deployment.config), verb, "--json"]
        return Process(f"headwater {verb}", arguments, folder / f"{verb}.log", setting.guardian)

    capture, apply = command("capture"), command("apply")
    return _Deployed(
        Target(NAME, setting, stores, Embedded(state, NAME), dsn, capture, apply),
        deployment,
        Measured(NAME, setting.bootstrap, capture, apply, ports[1], state, lake),
        ports,
    )


@contextmanager
def _running(deployed: _Deployed, watch: Watch) -> Iterator[None]:
    target = deployed.target
    target.capture.start()
    target.apply.start()
    try:
        watch("building views")
        wait_until(lambda: _built(target) >= {*_VIEWS}, "all views to be built", _REACH_S)
        _await_views(deployed)
        yield
    finally:
        target.capture.kill()
        target.apply.kill()
        target.state.clear()


def _under_load(deployed: _Deployed, work: Work, watch: Watch) -> Soaked:
    target, (minutes, rate_per_s, seed, quiet) = deployed.target, work
    load, sampler = Load(target.dsn, rate_per_s, FULL, seed), Sampler(deployed.measured)
    faults: list[Fault] = []
    findings: list[str] = []
    with ExitStack() as stack:
        if quiet:
            home = deployed.deployment.home / "prometheus"
            alarms = Prometheus(home, prometheus_rules(), deployed.ports)
            stack.enter_context(closing(alarms))
        load.start()
        sampler.start()
        try:
            for number, name in enumerate([] if quiet else plan(minutes, seed)):
                _until(target, sampler, number + FIRST_FAULT_S / 60)
                watch(f"minute {number + 1} of {minutes}: {name}")
                faults.append(Fault(sampler.minute, name))
                FAULTS[name](target)
            _until(target, sampler, minutes)
            if quiet:
                fired = alarms.fired(minutes)
                findings += (f"{code} has fired" for code in sorted(fired))
            load.end()
            watch("the last changes arrive")
            _await_views(deployed)
            samples = sampler.end()
            watch("comparing views")
            findings += verified(_VIEWS, deployed.deployment)
            findings += _ended(deployed)
        except (AssertionError, HeadwaterError, psycopg.Error) as error:
            findings.append(f"minute {sampler.minute:.1f}: {type(error).__name__}: {error}")
            load.end()
            samples = sampler.samples
    if quiet:
        findings += _told_late(samples)
    findings += growth(samples, minutes)
    findings += _stopped(deployed.target.apply.log)
    if load.written < _RATE_PART * rate_per_s * 60 * minutes:
        findings.append(f"only {load.written} transactions were committed; {load.error}")
    return Soaked(work, samples, faults, load.written, load.failed, findings)


def _until(target: Target, sampler: Sampler, minute: float) -> None:
    """Both commands go on meanwhile, or ``FatalError`` is raised."""
    while sampler.minute < minute:
        target.capture.check()
        target.apply.check()
        threading.Event().wait(_POLL_S)


def _built(target: Target) -> set[str]:
    """Views that apply has told of; until then none of them is behind anything."""
    target.capture.check()
    target.apply.check()
    return {line["view"] for line in events(target.apply.log, "view_built")}


def _await_views(deployed: _Deployed) -> None:
    """Until all views hold what is committed by now, without a parked key."""
    lsn, target = deployed.deployment.wal_end(), deployed.target
    deadline = time.monotonic() + _REACH_S
    with Views(deployed.deployment.config) as views:
        while True:
            target.capture.check()
            target.apply.check()
            try:
                parked = views.wait(*_VIEWS, lsn=lsn, timeout_s=_WAIT_S).parked
                assert not parked, f"keys are parked: {parked}"
                return
            except (NotReachedError, StoppedError):
                if time.monotonic() > deadline:
                    raise


def _told_late(samples: Sequence[Sample]) -> Iterator[str]:
    late_s = median([one.values["lag_s"] for one in samples if "lag_s" in one.values] or [inf])
    if late_s > _QUIET_LAG_S:
        yield f"metrics tell that a view is {late_s:.1f} s behind, though nothing disturbs it"


def _ended(deployed: _Deployed) -> Iterator[str]:
    """SIGTERM ends both, and with apply all that it started."""
    target, state = deployed.target, deployed.measured.state
    for process in (target.capture, target.apply):
        pid = process.pid
        process.ask_to_stop()
        process.stop()
        left = process_usage.owners(pid, state) if process is target.apply else []
        if left:
            yield f"{process.name} has left processes behind: {left}"


def _stopped(log: Path) -> Iterator[str]:
    """Each line of apply that tells of a view that stopped, or of what it left out."""
    for event in _NEVER:
        yield from (f"apply: {json.dumps(line)}" for line in events(log, event))
