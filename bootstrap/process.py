"""Commands on views, as processes run them: one Spark session, one thread a view."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

import structlog
from pyspark.sql import SparkSession

from bootstrap.build import Built, build, refuse_to_forget
from bootstrap.build_parts import Kit
from bootstrap.retention import clear, remove
from bootstrap.snapshot_source import TableSnapshots
from bootstrap.source_tables import present
from bootstrap.switch import settle_left, stopped, switch
from cdc.config import Config
from cdc.errors import HeadwaterError, UsageError
from cdc.kafka.broker import Broker
from cdc.log_events import LogEvent
from cdc.shutdown_signals import told_to_stop
from jobs.generations.declaration import declared, differing
from jobs.generations.generation_record import Generations, read_generations
from jobs.generations.view_locks import BUSY_S, is_kept, turn
from jobs.generations.view_state import view_directory
from jobs.spark.faults import trace, translate
from jobs.spark.session import spark_session

_POLL_S = 0.1

log = structlog.get_logger("build")


class Teller(Protocol):
    """Hears of views what is being done with them, from several threads."""

    def step(self, view: str, what: str) -> None:
        """One line."""

    def reading(self, view: str, rows: int, expected: int) -> None:
        """So many rows of its snapshot were read, of about ``expected`` (0: nobody knows)."""

    def done(self, view: str) -> None:
        """Nothing more is done with it, for better or worse."""


def build_views(
    config: Config,
    names: Sequence[str],
    hold: bool,
    new: bool,
    teller: Teller,
    new_history: bool = False,
    despite_forecast: bool = False,
) -> tuple[list[Built], dict[str, HeadwaterError]]:
    """Build views side by side; what was built, and why the others were not.

    Raises ``UsageError`` for a ``new`` view that is there, or one to build anew that is not, and
    ``ViewError`` for one whose history would end, unless ``new_history`` is to begin.
    A view whose snapshot the source's WAL has no room for fails, unless ``despite_forecast``.
    SIGTERM and SIGINT end it between two steps.
    """
    for name in names:
        _check_name(config, name, new)
        if not new_history:
            _check_history(config, name)
    built: dict[str, Built] = {}
    failed: dict[str, HeadwaterError] = {}
    with spark_session(config) as spark:
        stopping = told_to_stop()  # after Spark, which takes SIGINT for itself

        def run(name: str) -> None:
            try:
                with _kit(config, name, spark, stopping, teller, despite_forecast) as one:
                    kit = replace(one, new_history=new_history, sharing=len(names))
                    built[name] = build(kit, hold)
            except Exception as error:
                found = translate(error, name)
                failed[name] = stopped(name) if stopping.is_set() else found
                if not stopping.is_set() and (where := trace(error)):
                    log.error(LogEvent.VIEW_NOT_BUILT, view=name, error=str(found), trace=where)
            finally:
                teller.done(name)

        threads = [threading.Thread(target=partial(run, name), name=name) for name in names]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if stopping.wait(_POLL_S):
                with suppress(Exception):  # of a load that would take its time
                    spark.sparkContext.cancelAllJobs()
                for thread in threads:
                    thread.join(_POLL_S)
    return [built[name] for name in names if name in built], failed


class RolledBack(NamedTuple):
    """What is live again. ``instead_of``: what was, if anything; ``retired_s``: when its rows
    were left, in seconds since 1970; ``differing``: what of its declaration is another now;
    ``applied``: somebody has the stream."""

    number: int
    instead_of: int | None
    retired_s: float
    differing: str
    applied: bool


def roll_back(config: Config, name: str, to: int | None, teller: Teller) -> RolledBack:
    """Show a retired generation.

    Raises ``UsageError`` when there is none.
    """
    found = read_generations(view_directory(config.apply.state, config.source.name, name))
    retired = [one for one in found.retired if to in (None, one.number)]
    if not retired:
        known = ", ".join(str(one.number) for one in found.retired) or "none"
        wanted = "earlier generation" if to is None else f"generation {to}"
        raise UsageError(
            f"view {name} has no {wanted} to roll back to", f"choose a retired one: {known}"
        )
    stopping = threading.Event()
    with (
        _session_if_needed(config, found) as spark,
        _kit(config, name, spark, stopping, teller) as kit,
    ):
        with turn(kit.directory, "build", BUSY_S):
            settle_left(kit)
            left, applied = kit.read().live, is_kept(kit.directory)
            switch(kit, retired[0].number)
        return RolledBack(
            retired[0].number,
            left.number if left else None,
            retired[0].retired_s,
            differing(retired[0].declared, declared(kit.definition)),
            applied,
        )


def drop_view(config: Config, name: str, generation: int | None, teller: Teller) -> list[int]:
    """Delete a view, or one of its generations that nobody reads; the numbers of what is gone."""
    found = read_generations(view_directory(config.apply.state, config.source.name, name))
    live = found.live
    if generation is not None and generation not in found.of:
        known = ", ".join(map(str, found.of)) or "none"
        raise UsageError(f"view {name} has no generation {generation}", f"choose one of {known}")
    if generation is not None and live is not None and live.number == generation:
        raise UsageError(
            f"generation {generation} of view {name} is live",
            "leave out --generation to drop the whole view",
        )
    stopping = threading.Event()
    with (
        _session_if_needed(config, found) as spark,
        _kit(config, name, spark, stopping, teller) as kit,
        turn(kit.directory, "build", BUSY_S),
    ):
        settle_left(kit)
        if generation is not None:
            remove(kit, generation)
            return [generation]
        with turn(kit.directory, "stream", BUSY_S):
            return clear(kit)


def _check_name(config: Config, name: str, new: bool) -> None:
    found = read_generations(view_directory(config.apply.state, config.source.name, name))
    if new and found.live is not None:
        raise UsageError(f"view {name} already exists", f"run `headwater view rebuild {name}`")
    if not new and not found.of:
        raise UsageError(f"view {name} does not exist yet", f"run `headwater view create {name}`")


def _check_history(config: Config, name: str) -> None:
    """Before Spark starts; what a store alone knows of is asked when it has."""
    directory = view_directory(config.apply.state, config.source.name, name)
    found = read_generations(directory)
    if found.building is None:
        refuse_to_forget(name, directory, found.live)


@contextmanager
def _kit(
    config: Config,
    name: str,
    spark: SparkSession | None,
    stopping: threading.Event,
    teller: Teller,
    despite_forecast: bool = False,
) -> Iterator[Kit]:
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        step = partial(teller.step, name)
        reading = partial(teller.reading, name)
        snapshots = TableSnapshots(config, broker, name, step, reading, despite_forecast)
        now = partial(present, config.source)
        yield Kit(config, name, spark, broker, snapshots, stopping, step, time.time, now)


@contextmanager
def _session_if_needed(config: Config, found: Generations) -> Iterator[SparkSession | None]:
    """Only Delta's tables need Spark to be switched, restored or deleted."""
    stores = {one.declared.store for one in found.of.values()}
    if all(config.store(store).kind != "delta" for store in stores):
        yield None
        return
    with spark_session(config) as spark:
        yield spark
