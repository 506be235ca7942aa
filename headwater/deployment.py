"""The parts of a deployment as they are now: servers, processes, views. What ``status`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Final, NamedTuple

from cdc.config import Config
from cdc.errors import HeadwaterError, one_line
from cdc.kafka.broker import Broker
from cdc.lag.states import GOOD, State
from cdc.plural import plural
from cdc.source.errors import place
from cdc.source.postgres import connect, connection_parameters
from headwater.check.stores import stores
from headwater.cli.common.format import age, size
from headwater.lag.watch import LagWatch, Seen
from jobs.state.server.connection import shown_place
from jobs.state.server.reader import reading_state
from jobs.state.server.status import state_status

RUNNING: Final = "running"
FAILED: Final = "failed"
_SOON_S: Final = 86_400.0
"""What is forecast for later is not told."""
_WELL: Final = frozenset({*GOOD, State.CATCHING_UP})


class Part(NamedTuple):
    """``state`` of a server is running, stopped or failed, of capture and a view what ``headwater
    lag`` says; ``well`` if nobody has to act. ``said`` is where a server is, or what is wrong."""

    name: str
    state: str
    well: bool
    said: str = ""


def parts_of(config: Config) -> Iterator[Part]:
    """Source, Kafka, stores, state database, capture and views, in this order; what cannot be
    asked is told as such."""
    yield _source(config)
    yield _kafka(config)
    for store in stores(config):
        if store.check.startswith("store ") and store.level != "warning":
            well = store.level == "ok"
            said = store.message if well else one_line(store.message, store.hint)
            yield Part(store.check, RUNNING if well else FAILED, well, said)
    yield from _state_database(config)
    yield from _followers(config)


def _source(config: Config) -> Part:
    try:
        with connect(config.source.dsn, application_name="headwater status"):
            where = place(connection_parameters(config.source.dsn))
            return Part("source", RUNNING, True, f"PostgreSQL at {where}")
    except HeadwaterError as error:
        return Part("source", FAILED, False, str(error))


def _kafka(config: Config) -> Part:
    try:
        with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
            broker.default_config()
    except HeadwaterError as error:
        return Part("kafka", FAILED, False, str(error))
    return Part("kafka", RUNNING, True, f"Kafka at {config.kafka.bootstrap_servers}")


def _state_database(config: Config) -> Iterator[Part]:
    """Nothing where there is none yet."""
    name = "state database"
    try:
        if (own := state_status(config)) is not None:
            said = f"PostgreSQL {own.version}, {size(own.size_bytes)} in {own.place.directory}"
            pid = f", pid {own.pid}" if own.pid else ""
            yield Part(name, own.condition, own.condition != "deaf", said + pid)
        elif config.apply.engine == "database" and (dsn := config.apply.state_dsn):
            with reading_state(config):
                yield Part(name, RUNNING, True, f"PostgreSQL at {shown_place(dsn)}")
    except HeadwaterError as error:
        yield Part(name, FAILED, False, str(error))


def _followers(config: Config) -> Iterator[Part]:
    """Capture and the views, by how far they are."""
    try:
        with ExitStack() as stack:
            if config.apply.engine == "database":
                with suppress(HeadwaterError):  # then nobody knows of parked keys
                    stack.enter_context(reading_state(config))
            seen = stack.enter_context(closing(LagWatch(lambda: config))).settled()
    except HeadwaterError as error:
        for name in ("capture", *(f"view {view}" for view in config.views)):
            yield Part(name, State.NO_DATA, False, str(error))
        return
    yield from _measured(seen)


def _measured(seen: Seen) -> Iterator[Part]:
    capture = seen.report.capture
    idle = capture.lag.behind_bytes is None or not capture.lag.active
    blocked = capture.blocked_by.text if capture.blocked_by else ""
    again = "" if seen.report.lag.progress_lsn is None else " --again"
    missing = "not running"
    if capture.lag.behind_bytes is None:
        missing = f"no slot: run `headwater init{again}`"
    said = missing if idle else blocked or _late(capture.lag_s)
    if (first := capture.forecast.first) is not None and first[0] < _SOON_S:
        said += f"; at this rate {first[1]} in {age(first[0])}"
    yield Part("capture", capture.state, capture.state in _WELL and not idle, said)
    for one in seen.report.views:
        fault = seen.faults.get(one.view)
        said = one_line(fault["fault"], fault["hint"]) if fault else _late(one.lag_s)
        if fault is None and one.state == State.NO_DATA:
            said = "nothing is known of it: run `headwater apply`"
        if one.parked_keys:
            said += f", {plural(one.parked_keys, 'key waits', 'keys wait')} as dead letters"
        well = one.state in _WELL and fault is None and not one.parked_keys
        yield Part(f"view {one.view}", one.state, well, said)
    for view, error in seen.unmeasured.items():
        yield Part(f"view {view}", State.NO_DATA, False, str(error))


def _late(seconds: float | None) -> str:
    return "how late is not known" if seconds is None else f"{seconds:,.1f} s behind the source"
