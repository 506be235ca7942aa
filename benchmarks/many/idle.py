"""What views cost that nothing happens to: fifty of them, beside one; and one under load."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.environment import headwater
from benchmarks.many.deployment import SOURCE, Place
from benchmarks.many.footprint import footprint_figures
from benchmarks.many.load import loading
from benchmarks.many.shop import Sizes
from benchmarks.many.usage import Processes, Taken, Usage, processes, using
from benchmarks.many.views import View, store_lines, view_lines
from cdc.errors import FatalError
from stack.child_process import Process, tail

VIEWS: Final = 50
_SETTLE_S: Final = 30.0
"""A process that has just built or opened views has things to let go of."""
_IDLE_S: Final = 60.0
_LOADED_PER_S: Final = 200
"""Transactions; of the shop's, most of which the view does not read."""
_LOAD: Final = _LOADED_PER_S + 1
"""Its rows have other numbers than those of the ten views' loads."""
_CREATE_S: Final = 1_800.0
_POLL_S: Final = 0.2
_SQL: Final = (
    "select id, name, city from customers",
    "select id, sku, name, price, mark from products where active",
    "select o.id, o.status, o.total, c.name, o.mark from orders o join customers c"
    " on c.id = o.customer_id",
    "select c.id, c.name, count(o.id) as orders, sum(o.total) as revenue from customers c"
    " left join orders o on o.customer_id = c.id group by c.id",
    "select m.id, m.rating, m.body, u.email from comments m join users u on u.id = m.user_id",
)


def idle_views(count: int) -> list[View]:
    """So many views in Redis, of some kinds, in turns."""
    return [
        View(f"idle_{count}_{number}", "cache", ("id",), "", _SQL[number % len(_SQL)])
        for number in range(count)
    ]


def idle_figures(one: Taken, many: Taken) -> dict[str, float]:
    """What the others cost beside the first."""
    return {
        f"idle_{VIEWS}_views_cpu": max(0.0, many.cpu_cores - one.cpu_cores),
        f"idle_{VIEWS}_views_rss_mb": max(0.0, many.rss_mb - one.rss_mb),
    }


def measure_idle(place: Place, capture: int, sizes: Sizes) -> dict[str, float]:
    """Of one view and of all, each with a state of its own; nobody writes to the shop, until the
    one is measured under a load, too. ``capture`` is the pid of what captures."""
    config = place.setting.config(SOURCE)
    declared = config.read_text(encoding="utf-8")
    try:
        with _kept(place, capture, 1) as (process, parts):
            one = _idle(place, process, parts)
            loaded = _loaded(place, process, parts, sizes)
        with _kept(place, capture, VIEWS) as (process, parts):
            many = _idle(place, process, parts)
    finally:
        config.write_text(declared, encoding="utf-8")
    return {
        **idle_figures(one.of_apply, many.of_apply),
        **footprint_figures("one_idle", one.taken),
        **footprint_figures(f"one_{_LOADED_PER_S}tx", loaded.taken),
    }


@contextmanager
def _kept(place: Place, capture: int, count: int) -> Iterator[tuple[Process, dict[str, Processes]]]:
    """So many views, built and applied by one process."""
    setting, state, views = place.setting, place.setting.home / f"idle-{count}", idle_views(count)
    _declare(place, state, views)
    names, log = [view.name for view in views], f"create-idle-{count}"
    headwater(setting, SOURCE, "view", "create", *names, log=log, timeout_s=_CREATE_S)
    with _applying(place, count) as process:
        yield process, processes(setting.home, capture, process.pid, state)


def _idle(place: Place, process: Process, parts: Mapping[str, Processes]) -> Usage:
    _wait(place, process, _SETTLE_S, "idle views settle")
    with using(parts) as usage:
        _wait(place, process, _IDLE_S, "idle views")
    return usage


def _loaded(place: Place, process: Process, parts: Mapping[str, Processes], sizes: Sizes) -> Usage:
    dsn, log = place.setting.dsn, place.setting.log("load-one-view")
    with loading(dsn, _LOADED_PER_S, sizes, _LOAD, log) as load:
        _wait(place, process, _SETTLE_S, "one view under load: warming up")
        with using(parts) as usage:
            _wait(place, process, _IDLE_S, "one view under load")
        load.check()
    return usage


def _declare(place: Place, state: Path, views: Sequence[View]) -> None:
    """The source's configuration with these views in place of the shop's."""
    config, found = place.setting.config(SOURCE), place.stores
    source, _, _ = config.read_text(encoding="utf-8").partition("[snapshot]")
    stores = (found.redis_url, found.opensearch_url, place.reports_dsn, str(place.lake))
    apply = f'[snapshot]\nrate = "none"\n[apply]\nstate = "{state}"\nengine = "database"'
    lines = [source, apply, *store_lines(*stores), *view_lines(views), ""]
    config.write_text("\n".join(lines), encoding="utf-8")


@contextmanager
def _applying(place: Place, count: int) -> Iterator[Process]:
    setting = place.setting
    command = ["--config", str(setting.config(SOURCE)), "apply", "--json"]
    log = setting.log(f"apply-idle-{count}")
    process = Process(f"headwater apply of {count} idle views", command, log, setting.guardian)
    process.start()
    try:
        _await_stream(place, process)
        yield process
    finally:
        process.ask_to_stop()
        process.stop()


def _await_stream(place: Place, process: Process) -> None:
    deadline = time.monotonic() + _CREATE_S
    while '"stream_started"' not in process.log.read_text(encoding="utf-8"):
        process.check()
        if time.monotonic() > deadline:
            raise FatalError(f"{process.name} has no stream\n{tail(process.log)}")
        place.setting.watch("apply starts", 0)
        time.sleep(_POLL_S)


def _wait(place: Place, process: Process, seconds: float, what: str) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        process.check()
        place.setting.watch(what, passed / seconds)
        time.sleep(_POLL_S)
