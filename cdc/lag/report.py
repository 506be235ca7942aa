"""What measurements mean: the state of capture and of each view, their speed, and since when. Pure.

One ``Assessor`` sees measurement after measurement, so that it knows what moved between them.
``headwater lag``, the metrics and every other interface show what it reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple

from cdc.lag.heartbeats import HeartbeatTrail
from cdc.lag.measure import CaptureLag, Lag, PartitionLag
from cdc.lag.rates import WINDOW_S, Count, Progress, Rates
from cdc.lag.slot_activity import SlotActivity
from cdc.lag.source_horizon import Look, SourceHorizon
from cdc.lag.states import Evidence, State, state_of
from cdc.lag.wal_forecast import WalForecast, wal_forecast

OVERDUE: Final = 3
"""So many heartbeats may be missing before the source is unknown."""
FORECAST_S: Final = 300.0
"""Forecasts of the slot and of the WAL volume are from so long."""
_UNKNOWN_S: Final = 30.0
"""The same where no heartbeats are written."""


class Block(NamedTuple):
    """What blocks: ``cause`` is one of few words, ``text`` says it for people."""

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """Capture at one moment. Moments are in seconds since 1970."""

    lag: CaptureLag
    state: State
    blocked_by: Block | None
    complete_until_s: float | None
    """Everything that was committed before is in Kafka; None if that is not known."""
    lag_s: float | None
    """The age of the oldest commit that is not in Kafka; None if that is not known."""
    moved_s: float | None
    rates: Rates | None
    """In bytes of WAL."""
    forecast: WalForecast
    """If what the slot retains grows as it did."""


@dataclass(frozen=True, slots=True)
class ViewReport:
    """One view, all its partitions together. Moments are in seconds since 1970."""

    view: str
    state: State
    blocked_by: Block | None
    partitions: tuple[PartitionLag, ...]
    states: tuple[State, ...]
    """Of the partitions."""
    lag_s: float
    """The age of the oldest commit that the store lacks, in Kafka or not; at least, while the
    source is unknown."""
    in_kafka_s: float
    """For how long Kafka has held the oldest record that is not applied."""
    parked_keys: int
    moved_s: float | None
    """When the view was last applied further."""
    heartbeat_s: float | None
    """When the newest heartbeat was written that the view has passed."""
    rates: Rates | None
    """In records."""

    @property
    def behind_records(self) -> int:
        return sum(one.behind_records for one in self.partitions)

    @property
    def lost_records(self) -> int:
        return sum(one.lost_records for one in self.partitions)

    @property
    def behind_bytes(self) -> int | None:
        known = [one.behind_bytes for one in self.partitions if one.behind_bytes is not None]
        return max(known, default=None)

    @property
    def worst(self) -> PartitionLag:
        """The partition that is the furthest behind."""
        return max(self.partitions, key=lambda one: (one.behind_s, one.behind_records))


@dataclass(frozen=True, slots=True)
class Report:
    """Everything, as of one measurement."""

    lag: Lag
    capture: CaptureReport
    views: tuple[ViewReport, ...]


class Assessor:
    """Use from one thread. ``heartbeat_every_s`` is 0 where none are written."""

    def __init__(self, heartbeat_every_s: float) -> None:
        self._every_s = heartbeat_every_s
        self._horizon = SourceHorizon()
        self._capture = Progress()
        self._retained = Progress(FORECAST_S)
        self._views: dict[str, tuple[Progress, HeartbeatTrail]] = {}

    def report(
        self,
        lag: Lag,
        faults: Mapping[str, Block] = MappingProxyType({}),
        parked: Mapping[str, int] = MappingProxyType({}),
    ) -> Report:
        """The next measurement. ``faults`` names what blocks a view, ``parked`` counts the keys
        of views that wait as dead letters."""
        capture = self._of_capture(lag)
        views = (
            self._of_view(lag, capture, tuple(own), faults.get(view), parked.get(view, 0))
            for view, own in groupby(lag.views, lambda one: one.view)
        )
        return Report(lag, capture, tuple(views))

    def _of_capture(self, lag: Lag) -> CaptureReport:
        seen, confirmed = lag.capture.activity, _confirmed(lag)
        if seen is not None:
            self._horizon.add(Look(lag.at_s, seen.wal_end, seen.transactions), confirmed)
            self._capture.add(Count(lag.at_s, confirmed or 0, seen.wal_end))
        until_s = self._horizon.complete_until_s(confirmed, lag.heartbeat_s)
        lag_s = None if until_s is None else max(0.0, lag.at_s - until_s)
        moved = [at for at in (lag.marked_s, lag.moved_s) if at is not None]
        moved_s = max(moved, default=self._capture.moved_s)
        rates, blocked_by = self._capture.rates, _blocked(lag.capture)
        evidence = Evidence(
            measured=lag_s is not None,
            blocked=blocked_by is not None,
            source_known=seen is not None and self._knows_source(lag, until_s),
            behind=(lag.capture.behind_bytes or 0) if lag_s else 0,
            lag_s=lag_s or 0.0,
            stuck_s=min(lag_s, lag.at_s - moved_s) if lag_s and moved_s is not None else 0.0,
            gain=rates.gain if rates else None,
        )
        state = state_of(evidence)
        forecast = self._forecast(lag.at_s, seen)
        return CaptureReport(
            lag.capture, state, blocked_by, until_s, lag_s, moved_s, rates, forecast
        )

    def _forecast(self, at_s: float, seen: SlotActivity | None) -> WalForecast:
        """``restart_lsn`` moves in steps, so what is retained grows between any two of them: that
        tells something over a while only, or where nobody reads the slot, and it stands."""
        if seen is None or seen.restart is None:
            return WalForecast()
        self._retained.add(Count(at_s, seen.restart, seen.wal_end))
        rates = self._retained.rates
        told = seen.pid is None or self._retained.seconds >= WINDOW_S
        return wal_forecast(seen, -rates.gain if rates is not None and told else None)

    def _knows_source(self, lag: Lag, until_s: float | None) -> bool:
        """Capture that catches up meets old heartbeats, but writes marks, and while a transaction
        takes long, Kafka acknowledges its records: that is known, too."""
        told_s = lag.heartbeat_s if self._every_s else until_s
        patience_s = OVERDUE * self._every_s or _UNKNOWN_S
        known = [at for at in (told_s, lag.marked_s, lag.moved_s) if at is not None]
        return bool(known) and lag.at_s - max(known) <= patience_s

    def _of_view(
        self,
        lag: Lag,
        capture: CaptureReport,
        own: tuple[PartitionLag, ...],
        fault: Block | None,
        parked: int,
    ) -> ViewReport:
        view = own[0].view
        progress, trail = self._views.setdefault(view, (Progress(), HeartbeatTrail()))
        done = sum(one.committed or 0 for one in own)
        progress.add(Count(lag.at_s, done, sum(one.end for one in own)))
        trail.look(lag.heartbeat_s, lag.marked_offsets, own)
        commits = [one.moved_s for one in own if one.moved_s is not None]
        moved_s = max(commits, default=progress.moved_s)
        blocked_by = fault or _lost(own)

        def state(*some: PartitionLag) -> State:
            rates = progress.rates if any(one.behind_records for one in some) else capture.rates
            return state_of(
                Evidence(
                    measured=any(one.started for one in own),
                    blocked=blocked_by is not None,
                    source_known=self._knows_source(lag, capture.complete_until_s),
                    behind=sum(one.behind_records for one in some),
                    lag_s=_lag_s(some, capture),
                    stuck_s=min(lag.at_s - (moved_s or lag.at_s), _in_kafka_s(some)),
                    gain=rates.gain if rates else None,
                )
            )

        return ViewReport(
            view,
            state(*own),
            blocked_by,
            own,
            tuple(state(one) for one in own),
            _lag_s(own, capture),
            _in_kafka_s(own),
            parked,
            moved_s,
            trail.passed_s,
            progress.rates,
        )


def _confirmed(lag: Lag) -> int | None:
    return None if lag.progress_lsn is None else lag.progress_lsn + 1


def _lag_s(partitions: Iterable[PartitionLag], capture: CaptureReport) -> float:
    return max((*(one.behind_s for one in partitions), capture.lag_s or 0.0))


def _in_kafka_s(partitions: Iterable[PartitionLag]) -> float:
    return max((one.in_kafka_s for one in partitions), default=0.0)


def _lost(partitions: Iterable[PartitionLag]) -> Block | None:
    lost = sum(one.lost_records for one in partitions)
    return Block("lost", f"{lost:,} records lost to retention") if lost else None


def _blocked(capture: CaptureLag) -> Block | None:
    """What keeps capture from its work, as far as the slot tells."""
    seen, slot = capture.activity, f"slot {capture.slot}"
    if seen is None:
        return None
    if not seen.exists:
        return Block("no slot", f"{slot} is gone")
    if seen.lost:
        return Block("slot lost", f"{slot} is lost ({seen.invalidation_reason or 'WAL removed'})")
    return None if capture.active else Block("not running", f"{slot} is not read by any capture")
