"""All measurements, one after the other, on servers that run for them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.capture.consumer import librdkafka_version
from benchmarks.capture.forms import measure_forms
from benchmarks.capture.latency import measure_latency
from benchmarks.capture.memory import measure_memory
from benchmarks.capture.race import measure_races
from benchmarks.capture.restart import measure_restart
from benchmarks.capture.snapshot import measure_snapshot
from benchmarks.capture.snapshot_cost import measure_beside
from benchmarks.environment import Setting, Watch, open_setting, server_versions, servers_home
from benchmarks.fault_seeds import SEEDS, measure_seeds
from benchmarks.many.measure import measure_many
from benchmarks.process_usage import require_proc
from benchmarks.report.metrics import MEASUREMENTS, ON_REQUEST, ROWS
from benchmarks.report.results import Results, machine_facts
from benchmarks.views.bootstrap import measure_bootstrap
from benchmarks.views.catchup import measure_catch_up
from benchmarks.views.growth import measure_growth
from benchmarks.views.joined_backlog import measure_joined
from benchmarks.views.story import measure_demo
from benchmarks.views.visible import measure_visible
from benchmarks.views.waits import measure_waits
from cdc.errors import UsageError
from stack import servers
from stack.guardian import Guardian

_ON_SERVERS: Final[Mapping[str, Callable[[Setting], dict[str, float]]]] = {
    "capture": measure_races,
    "forms": measure_forms,
    "memory": measure_memory,
    "restart": measure_restart,
    "latency": measure_latency,
    "snapshot": measure_snapshot,
    "beside": measure_beside,
    "bootstrap": measure_bootstrap,
    "visible": measure_visible,
    "wait": measure_waits,
    "apply": measure_catch_up,
    "joined": measure_joined,
    "growth": measure_growth,
    "many": measure_many,
}
Done = Callable[[str, Mapping[str, float]], None]
"""Hears of each measurement's figures."""


def chosen(only: Iterable[str]) -> list[str]:
    """The measurements to run, in their order. ``UsageError`` if one is unknown.

    A name may be several, separated by commas. When none is named: all but those on request.
    """
    names = [name.strip() for part in only for name in part.split(",") if name.strip()]
    unknown = sorted(set(names) - MEASUREMENTS.keys())
    if unknown:
        raise UsageError(
            f"no measurement {', '.join(unknown)}", f"choose from {', '.join(MEASUREMENTS)}"
        )
    return [n for n in MEASUREMENTS if (n in names if names else n not in ON_REQUEST)]


def measure(
    home: Path, names: Sequence[str], rows: int, watch: Callable[[str], Watch], done: Done
) -> None:
    """Run the named measurements; servers are stopped at the end, and deleted if all went well.

    ``watch`` gives each measurement its own observer. The demo and the seeds come last, when the
    servers of the others are gone.
    """

    def scaled(seeds: int) -> int:
        return max(1, round(seeds * rows / ROWS))

    require_proc()
    on_servers = [name for name in names if name in _ON_SERVERS]
    if on_servers:
        _measure_on_servers(home, on_servers, rows, watch, done)
    if "demo" in names:
        done("demo", measure_demo(home, watch("demo")))
    for name in SEEDS:
        if name in names:
            done(name, measure_seeds(name, home, scaled, watch(name)))


def facts(rows: int, load_before: float) -> Results:
    """What the figures were measured on, and how busy that was before."""
    return {
        "rows": rows,
        "load_before": load_before,
        **machine_facts(),
        **server_versions(),
        "librdkafka_version": librdkafka_version(),
    }


def _measure_on_servers(
    home: Path, names: Sequence[str], rows: int, watch: Callable[[str], Watch], done: Done
) -> None:
    guardian = Guardian()
    try:
        setting = open_setting(home, rows, watch(names[0]), guardian)
        for name in names:
            done(name, _ON_SERVERS[name](setting._replace(watch=watch(name))))
    except BaseException:
        servers.stop(servers_home(home))  # their data and logs stay, to be looked at
        raise
    else:
        servers.purge(servers_home(home))
    finally:
        guardian.release()
