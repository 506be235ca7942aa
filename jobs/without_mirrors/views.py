"""All views of a process: one Spark session, one thread and one query each.

A view that fails stops alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError, UsageError, ViewError
from cdc.kafka.broker import Broker
from cdc.log_events import LogEvent
from cdc.metrics.probes import Probes
from jobs.generations.last_error import noted
from jobs.generations.live_generation import Asked, Standing, standing
from jobs.generations.view_locks import Holder, turn
from jobs.generations.view_state import view_directory
from jobs.sinks.contract import Sink
from jobs.sinks.stores import open_sink
from jobs.spark.faults import trace, translate
from jobs.without_mirrors.group_offsets import GroupOffsets
from jobs.without_mirrors.query import Applied, ViewQuery
from jobs.without_mirrors.table_descriptions import NotDescribedError

_POLL_S = 0.05
_START_POLL_S = 0.5
_RESTART_S = 1.0

log = structlog.get_logger("apply")


def chosen(config: Config, names: Sequence[str]) -> list[str]:
    """The views to apply: the named ones, or all. Raises ``UsageError``."""
    known = ", ".join(config.views) or "none"
    for name in names:
        if name not in config.views:
            raise UsageError(f"no view {name!r}", f"choose a declared view: {known}")
    if not config.views:
        raise UsageError("the configuration declares no view", "add a [views.NAME] section")
    return list(dict.fromkeys(names)) or list(config.views)


def apply_views(
    spark: SparkSession,
    config: Config,
    names: Sequence[str],
    stopping: threading.Event,
    available_now: bool = False,
    sinks: Mapping[str, Sink] | None = None,
    probes: Probes | None = None,
) -> dict[str, HeadwaterError]:
    """Maintain views until ``stopping`` is set, or until what is there now has been applied.

    Returns why each failed view failed. ``sinks`` replaces stores, by view.
    """
    runs = [
        ViewRun(spark, config, name, stopping, available_now, (sinks or {}).get(name), len(names))
        for name in names
    ]
    threads = [threading.Thread(target=run.run, name=f"view-{run.name}") for run in runs]
    for thread in threads:
        thread.start()
    if probes is not None:
        probes.ready_unless(lambda: [str(run.error) for run in runs if run.error is not None])
    for thread in threads:
        while thread.is_alive():  # a join without a timeout would hold signals back
            thread.join(_POLL_S)
            if probes is not None:
                probes.moved()
    return {run.name: run.error for run in runs if run.error is not None}


class ViewRun:
    """One view from start to end, on a thread of its own.

    It keeps the live generation, as that was declared. For a switch or a repair it gives the
    view out of its hands, and goes on with the generation that is live then. ``sharing``: so many
    views share the session.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        name: str,
        stopping: threading.Event,
        available_now: bool,
        sink: Sink | None = None,
        sharing: int = 1,
    ) -> None:
        self.name = name
        self.error: HeadwaterError | None = None
        self._spark = spark
        self._config = config
        self._stopping = stopping
        self._available_now = available_now
        self._sink = sink
        self._sharing = sharing
        self._directory = view_directory(config.apply.state, config.source.name, name)
        self._let_go = Asked(self._directory)
        self._group = GroupOffsets(name, stopping)
        self._batches = self._rows = 0

    def run(self) -> None:
        """Never raises: ``error`` says what went wrong."""
        try:
            with Broker(self._config.kafka.bootstrap_servers, self._config.kafka) as broker:
                self._run(broker)
            log.info(LogEvent.VIEW_ENDED, view=self.name, batches=self._batches, rows=self._rows)
        except Exception as error:
            self.error = translate(error, self.name)
            where = {"trace": found} if (found := trace(error)) else {}
            log.error(LogEvent.VIEW_STOPPED, view=self.name, error=str(self.error), **where)

    def _run(self, broker: Broker) -> None:
        started, wait_s = False, self._config.apply.retry_s
        while not self._stopping.is_set():
            self._let_go.let_pass(self._stopping)
            waits = partial(self._waits, wait_s)
            ends = self._stopping.is_set
            with turn(self._directory, "stream", wait_s, ends, waits) as mine:
                if not mine:
                    return
                with noted(self._directory, self.name, unless=ends):
                    live = standing(self._spark, self._config, self.name, started)
                    if live is not None:
                        if not self._keep(broker, live):
                            return
                        started, wait_s = True, math.inf  # it comes back
            if live is None and self._available_now:
                raise ViewError(
                    f"view {self.name} is being built", f"run `headwater view rebuild {self.name}`"
                )
            log.info(LogEvent.VIEW_WAITS_FOR_ITS_TURN, view=self.name)
            with turn(self._directory, "waits", math.inf, ends):
                self._let_go.wait(self._stopping)

    def _waits(self, at_most_s: float, holder: Holder | None) -> None:
        line: dict[str, Any] = {} if holder is None else holder._asdict()
        if at_most_s < math.inf:
            line["at_most_s"] = at_most_s
        log.warning(LogEvent.VIEW_WAITS_FOR_ANOTHER_PROCESS, view=self.name, **line)

    def _report(self, applied: Applied) -> None:
        self._batches += 1
        self._rows += applied.account.rows
        report(applied)

    def _keep(self, broker: Broker, live: Standing) -> bool:
        """Apply the stream to the live generation until it ends; whether it was to be let go."""
        store, retry_s = self._config.store(live.definition.store), self._config.apply.retry_s
        declared = self._config.views.get(self.name)
        sink = self._sink or open_sink(
            store, self.name, self._spark, retry_s, live.number, declared, live.definition.history
        )
        patience = Patience(retry_s)
        self._group.forget()
        try:
            while True:
                query = ViewQuery(
                    self._spark, self._config, live.definition, live.state, sink, broker,
                    self._report, self._sharing,
                )  # fmt: skip
                try:
                    return self._follow(query, broker)
                except RetryableError as error:
                    if self._stopping.is_set() or not patience.left(self._group.batch):
                        raise
                    log.warning(LogEvent.VIEW_INTERRUPTED, view=self.name, error=str(error))
                if self._let_go.asked():  # who asks may build it in another store
                    return True
                self._stopping.wait(_RESTART_S)
        finally:
            sink.close()

    def _follow(self, query: ViewQuery, broker: Broker) -> bool:
        """From the query's start to its end, its offsets committed after each batch; whether it
        was to be let go."""
        try:
            asked = self._start(query)
            self._group.commit_if_possible(broker, query)  # a kill may have left the group behind
            while query.active and not self._stopping.wait(_POLL_S):
                if asked := self._let_go.asked():
                    break
                self._group.commit_if_possible(broker, query)
        finally:
            # Whoever asks for the view has it when nobody writes it any more.
            query.stop(self._stopping.is_set)
        if (error := query.error()) is not None:
            raise error
        if self._available_now and not self._stopping.is_set():
            self._group.commit(broker, query)
        else:
            self._group.commit_if_possible(broker, query)
        return asked

    def _start(self, query: ViewQuery) -> bool:
        """Start, waiting for capture to describe the table if it is not there yet; whether the
        view was to be let go before."""
        deadline = time.monotonic() + self._config.apply.retry_s
        while True:
            try:
                query.start(self._available_now)
                break
            except NotDescribedError as error:
                if self._available_now or time.monotonic() > deadline:
                    raise ViewError(error.message, error.hint) from error
            except RetryableError:
                raise
            except Exception as error:
                # A disk without room, say: what passes is waited for as it is within a batch.
                found = translate(error, self.name)
                if isinstance(found, RetryableError):
                    raise found from error
                raise
            if asked := self._let_go.asked():
                return asked
            if self._stopping.wait(_START_POLL_S):
                return False
        log.info(LogEvent.VIEW_STARTED, view=self.name)
        return False


def report(applied: Applied) -> None:
    """The log line of a batch. ``fresh_ms``: milliseconds from commit until the store had it, of
    each twentieth part of the changes, the ends among them."""
    counted = applied.account
    fresh = sorted(round((applied.at_us - at) / 1000) for at in counted.commits_us)
    line: dict[str, Any] = {
        "view": applied.batch.view,
        "batch": applied.batch.number,
        "records": counted.records,
        "keys": counted.keys,
        "rows": counted.rows,
        "seconds": round(applied.seconds, 3),
        "offsets": applied.offsets,
        "fresh_ms": fresh,
    }
    if applied.parked:
        line["parked"] = applied.parked
    if counted.truncated is not None:
        line["truncated"] = counted.truncated.hex()
    log.info(LogEvent.BATCH_APPLIED, **line)


class Patience:
    """How long a view may go without a new batch before a fault that may pass ends it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._batch: int | None = None
        self._since = 0.0

    def left(self, batch: int) -> bool:
        """Whether to go on after a fault. ``batch`` is the last one applied."""
        now = self._clock()
        if batch != self._batch:
            self._batch, self._since = batch, now
        return now - self._since < self._seconds
