"""The lag of capture and views, looked at again and again, as any process may do it beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from cdc.config import Config
from cdc.errors import ConfigError, HeadwaterError, LogError, UsageError, ViewError
from cdc.kafka.broker import Broker
from cdc.kafka.marks import newest_mark, refuse_other_database
from cdc.lag.measure import Lag, lag_of
from cdc.lag.report import Assessor, Block, Report
from cdc.lag.slot_activity import SlotActivity
from cdc.lag.source_session import SourceSession
from cdc.lag.view_lags import Moment, view_lags
from cdc.registry.schemas import registry_of, values_of
from headwater.lag.alert_lags import AlertReport, AlertWatch
from headwater.lag.parked_counts import Parked, ParkedKeys, by_view
from headwater.lag.verified import Verified, read_verified
from jobs.generations.last_error import stopped
from jobs.generations.view_state import view_directory
from verification.view_facts import ViewFacts, is_kept_by_state, view_facts
from verification.view_faults import NOT_APPLIED, STOPPED, not_applied, view_faults

_EVERY_S: Final = 1.0
_LOOKS: Final = 3
_FACTS_S: Final = 5.0
"""Topics, faults and parked keys are asked for as often: each view costs a session."""

Faults = Mapping[str, Mapping[str, str]]
"""Views that a fault has ended, or that nobody applies: ``kind``, when it ended, if that is known,
``fault`` and the way out."""


class _Facts(NamedTuple):
    topics: Mapping[str, Sequence[str]]
    unknown: Mapping[str, HeadwaterError]
    """Views whose topics nobody can say, and why."""
    parked: Parked
    faults: Faults
    retention_s: Mapping[str, float]


class Seen(NamedTuple):
    """What one look found."""

    report: Report
    parked: Parked
    faults: Faults
    unmeasured: Mapping[str, HeadwaterError] = MappingProxyType({})
    """Views that could not be measured, and why."""
    retention_s: Mapping[str, float] = MappingProxyType({})
    """For how long Kafka keeps records, by topic; without those that it keeps for good."""
    verified: Mapping[str, Verified] = MappingProxyType({})
    """What background checks found of views; nothing where they are switched off."""
    alerts: tuple[AlertReport, ...] = ()
    """Those on rows, unless some views are asked for alone."""


class LagWatch:
    """Use from one thread. ``config`` gives the configuration as it is now, ``names`` are the views
    to look at, all if it is empty. ``lasting``: a process looks as long as it runs, and wants to
    know all that can be told while the source is away, which else is an error, and for how long
    Kafka keeps records. ``by_apply``: that process applies the views, and need not be told whether
    somebody does."""

    def __init__(
        self,
        config: Callable[[], Config],
        names: Sequence[str] = (),
        by_apply: bool = False,
        lasting: bool = False,
    ) -> None:
        self._config, self._names = config, tuple(names)
        self._by_apply, self._lasting = by_apply, lasting or by_apply
        first = config()
        self._source = SourceSession(first.source.dsn, first.alerts.wal_volume_bytes)
        self._assessor = Assessor(first.capture.heartbeat_s)
        self._servers: tuple[Config, Broker, ViewFacts, ParkedKeys] | None = None
        self._alerts: AlertWatch | None = None
        self._facts = _Facts({}, {}, {}, {}, {})
        self._facts_due = 0.0
        self._values = values_of(registry_of(first))

    def look(self) -> Seen:
        """Raises ``HeadwaterError`` where a server does not answer; call ``close`` then."""
        config, broker, facts, letters = self._opened()
        if time.monotonic() >= self._facts_due:
            self._facts = self._asked(config, broker, facts, letters)
            self._facts_due = time.monotonic() + _FACTS_S
        known = self._facts
        lag, unmeasured = self._measured(config, broker, known.topics)
        blocks = {view: Block(one["kind"], one["fault"]) for view, one in known.faults.items()}
        report = self._assessor.report(lag, blocks, by_view(known.parked))
        missing = {**known.unknown, **unmeasured}
        verified = {
            view: found
            for view in (known.topics if config.verify.every else ())
            if (found := read_verified(_directory(config, view))) is not None
        }
        alerts: tuple[AlertReport, ...] = ()
        if self._alerts:
            alerts = self._alerts.look(lag, _moment(lag), self._values, missing)
        return Seen(
            report, known.parked, known.faults, missing, known.retention_s, verified, alerts
        )

    def settled(self) -> Seen:
        """As a single ``look``, and where something is behind another one: how fast it moves. A
        capture that runs has a few seconds to bring to Kafka what the first look found in the
        source, which proves that nothing older is missing."""
        seen = self.look()
        began_s = seen.report.lag.at_s
        for _ in range(_LOOKS):
            report = seen.report
            if report.capture.lag_s == 0 and not any(one.behind_records for one in report.views):
                break
            time.sleep(_EVERY_S)
            seen = self.look()
            capture = seen.report.capture
            if not capture.lag.active or (capture.complete_until_s or 0) >= began_s:
                break
        return seen

    def close(self) -> None:
        """Let go of all servers; the next look connects again."""
        self._source.close()
        if self._servers is not None:
            self._servers[1].close()
            self._servers = None

    def _asked(
        self, config: Config, broker: Broker, facts: ViewFacts, letters: ParkedKeys
    ) -> _Facts:
        names = self._names or tuple(config.views)
        topics: dict[str, Sequence[str]] = {}
        unknown: dict[str, HeadwaterError] = {}
        for view in names:
            with _noting(unknown, view):
                topics[view] = facts.topics(view)
        of_state = [view for view in topics if is_kept_by_state(config, view)]
        rows = {(view, view, -1): n for view in of_state if (n := facts.parked(view))}
        faults = faults_of(config, facts, topics)
        if self._by_apply:
            faults = {view: one for view, one in faults.items() if one["kind"] != NOT_APPLIED}
        kept = _retention_s(broker, topics) if self._lasting else {}
        return _Facts(topics, unknown, {**letters.now(), **rows}, faults, kept)

    def _measured(
        self, config: Config, broker: Broker, topics: Mapping[str, Sequence[str]]
    ) -> tuple[Lag, Mapping[str, HeadwaterError]]:
        source, now_s = config.source, time.time()
        activity = self._activity(source.slot_name)
        stored = newest_mark(broker, source.name)
        if activity is not None and stored is not None:
            refuse_other_database(source.name, stored.mark, self._source.identity())
        lag = lag_of(activity, source.slot_name, stored, now_s)
        found, unmeasured = view_lags(broker, topics, _moment(lag), self._values)
        return replace(lag, views=tuple(found)), unmeasured

    def _activity(self, slot: str) -> SlotActivity | None:
        try:
            return self._source.activity(slot)
        except HeadwaterError:
            self._source.close()
            if not self._lasting:
                raise
            return None

    def _opened(self) -> tuple[Config, Broker, ViewFacts, ParkedKeys]:
        """What is asked, made again when the configuration has changed."""
        config = self._read()
        if self._servers is None or self._servers[0] != config:
            if self._servers is not None:
                self._servers[1].close()
            broker = Broker(config.kafka.bootstrap_servers, config.kafka)
            names = self._names or config.views  # one that is not declared is told by a look
            own = [v for v in names if v in config.views and not is_kept_by_state(config, v)]
            letters = ParkedKeys(config, broker, own)
            self._servers = config, broker, view_facts(config, broker), letters
            if not self._names:
                self._alerts = AlertWatch(config, broker)
            self._values = values_of(registry_of(config))
            self._facts_due = 0.0
        return self._servers

    def _read(self) -> Config:
        """The configuration, as it was while it is being edited."""
        try:
            return self._config()
        except ConfigError:
            if self._servers is None or not self._lasting:
                raise
            return self._servers[0]


def _moment(lag: Lag) -> Moment:
    confirmed = None if lag.progress_lsn is None else lag.progress_lsn + 1
    return Moment(lag.wal_lsn, confirmed, lag.at_s)


@contextmanager
def _noting(errors: dict[str, HeadwaterError], view: str) -> Iterator[None]:
    """What is wrong with one view must not hide the others."""
    try:
        yield
    except (LogError, ViewError, UsageError) as error:
        errors[view] = error


def _retention_s(broker: Broker, topics: Mapping[str, Sequence[str]]) -> Mapping[str, float]:
    """Of topics that keep records for a limited time."""
    named = sorted({one for of_view in topics.values() for one in of_view})
    settings = broker.topic_config(sorted(broker.partitions(named)))
    kept_ms = {topic: int(of_topic["retention.ms"]) for topic, of_topic in settings.items()
               if "delete" in of_topic["cleanup.policy"]}  # fmt: skip
    return {topic: ms / 1000 for topic, ms in kept_ms.items() if ms > 0}


def faults_of(config: Config, facts: ViewFacts, views: Iterable[str]) -> Faults:
    """Why views do not follow the source now, by their names."""
    found: dict[str, Mapping[str, str]] = {}
    for one in view_faults(facts, views):
        noted: Mapping[str, str] = {}
        note = stopped(_directory(config, one.view)) if one.kind == STOPPED else None
        if note is not None:
            noted = {"at": note.at, "fault": note.fault, "hint": note.hint}
        found[one.view] = {"kind": one.kind, "fault": one.message, "hint": one.hint, **noted}
    return found


def told(faults: Faults) -> Faults:
    """For people: those that nobody applies in one, behind the others."""
    idle = [view for view, one in faults.items() if one["kind"] == NOT_APPLIED]
    if len(idle) < 2:
        return faults
    one = not_applied(idle)
    others = {view: fault for view, fault in faults.items() if view not in idle}
    return {**others, one.view: {"kind": one.kind, "fault": one.message, "hint": one.hint}}


def _directory(config: Config, view: str) -> Path:
    return view_directory(config.apply.state, config.source.name, view)
