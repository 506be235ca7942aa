"""How alerts on rows are: late, how many messages wait, and whether somebody sends them at all.

An alert is measured as a view is: what it has not decided, or not delivered, is what is behind. Of
one over a view that is what the view has not applied, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cdc.config import Config, RowAlert
from cdc.errors import HeadwaterError, LogError
from cdc.kafka.broker import Broker
from cdc.lag.measure import Lag, PartitionLag
from cdc.lag.report import Assessor, Block, ViewReport
from cdc.lag.states import State
from cdc.lag.view_lags import Moment, view_lags
from cdc.plural import plural
from cdc.registry.schemas import Read
from cdc.topics import row_alert_group
from headwater.alerts.delivery import MOST_LETTERS
from headwater.alerts.kept import Kept, kept
from headwater.lag.alert_letters import LetterCounts
from jobs.state.feeds.alert_places import AlertStand, alert_stand
from jobs.state.views.view_status import state_session

_FACTS_S: Final = 5.0
"""What is beside lag is asked for as often."""
_LONG_AGO_S: Final = 1.0
"""When a message was taken last, where none was. Since 1970."""


@dataclass(frozen=True, slots=True)
class AlertReport:
    """One alert. What is not known is None. ``lag_s`` is the age of the oldest commit that it has
    not decided, or not delivered, ``undelivered_s`` for how long that has been there to be read;
    ``waiting`` are messages, of ``behind_records``; ``delivered_s`` is when the webhook took one
    last, in seconds since 1970. ``problem`` says why there is ``no data``, if that is known, and
    ``blocked_by`` what blocks it."""

    alert: str
    of: str
    """The table or the view."""
    state: State
    blocked_by: str = ""
    lag_s: float | None = None
    behind_records: int | None = None
    waiting: int | None = None
    dead_letters: int | None = None
    delivered_s: float | None = None
    problem: str = ""
    undelivered_s: float | None = None


class _Facts(NamedTuple):
    """By alert; without those of which nothing is known."""

    sent_by_somebody: Mapping[str, bool]
    told: Mapping[str, Kept | None]
    letters: Mapping[str, int]
    stands: Mapping[str, AlertStand]
    problems: Mapping[str, str]
    gone: Mapping[str, str]
    """Why alerts over views cannot go on: what they were to read next is not there."""


class AlertWatch:
    """Those of a configuration. Use from one thread."""

    def __init__(self, config: Config, broker: Broker) -> None:
        self._config, self._broker = config, broker
        self._alerts = config.alerts.rows
        self._letters = LetterCounts(config.source.name, broker)
        self._assessor = Assessor(config.capture.heartbeat_s)
        self._facts = _Facts({}, {}, {}, {}, {}, {})
        self._due = 0.0

    def look(
        self, lag: Lag, moment: Moment, read: Read, unmeasured: Mapping[str, HeadwaterError]
    ) -> tuple[AlertReport, ...]:
        """Beside a measurement of the views, and why some have none. An alert that cannot be
        measured hides nothing."""
        if not self._alerts:
            return ()
        try:
            if time.monotonic() >= self._due:
                self._facts = self._asked()
                self._due = time.monotonic() + _FACTS_S
            topics = {
                name: [self._config.source.topic(*alert.table.split(".", 1))]
                for name, alert in self._alerts.items()
                if alert.table
            }
            found, errors = view_lags(self._broker, topics, moment, read, self._group)
        except HeadwaterError as error:
            return tuple(
                AlertReport(name, alert.subject, State.NO_DATA, problem=error.message)
                for name, alert in self._alerts.items()
            )
        found = [self._with_moment(one) for one in found]
        problems = {name: one.message for name, one in errors.items()}
        for name, alert in self._alerts.items():
            if alert.view:
                found += self._of_view(name, alert, lag)
            if alert.view in unmeasured:
                problems[name] = unmeasured[alert.view].message
        problems |= self._facts.problems
        blocks = {name: block for name in self._alerts if (block := self._block(name))}
        whole = replace(lag, views=tuple(found))
        report = self._assessor.report(whole, blocks, self._facts.letters)
        reports = {one.view: one for one in report.views}
        return tuple(
            self._report(name, alert, reports.get(name), problems.get(name, ""))
            for name, alert in self._alerts.items()
        )

    def _asked(self) -> _Facts:
        names = list(self._alerts)
        of_tables = [name for name in names if self._alerts[name].table]
        active = self._broker.active_groups([self._group(name) for name in of_tables])
        somebody = {name: self._group(name) in active for name in of_tables}
        told: dict[str, Kept | None] = {}
        for name in of_tables:
            topic = self._config.source.topic(*self._alerts[name].table.split(".", 1))
            commits = self._broker.commits(self._group(name), [topic]).values()
            told[name] = _together([kept(one.note) for one in commits])
        stands, problems, gone = self._stands([name for name in names if name not in of_tables])
        for name, stand in stands.items():
            somebody[name], told[name] = stand.is_held, kept(stand.note)
        letters = self._letters.now()
        return _Facts(
            somebody, told, {name: letters.get(name, 0) for name in names}, stands, problems, gone
        )

    def _stands(
        self, names: Sequence[str]
    ) -> tuple[dict[str, AlertStand], dict[str, str], dict[str, str]]:
        """Of alerts over views; problems by name, and those that end an alert."""
        if not names:
            return {}, {}, {}
        source = self._config.source.name
        try:
            with state_session(self._config) as conn:
                if conn is None:
                    return {}, dict.fromkeys(names, "the state database does not run here"), {}
                stands, problems = dict[str, AlertStand](), dict[str, str]()
                gone = dict[str, str]()
                for name in names:
                    try:
                        stands[name] = alert_stand(conn, source, name)
                    except LogError as error:
                        gone[name] = error.message
                    except HeadwaterError as error:
                        problems[name] = error.message
                return stands, problems, gone
        except HeadwaterError as error:
            return {}, dict.fromkeys(names, error.message), {}

    def _with_moment(self, of_table: PartitionLag) -> PartitionLag:
        """While messages wait, nothing moves but by one that is taken; so a single look, too, tells
        whether they go."""
        told = self._facts.told.get(of_table.view)
        if told is None or not told.waiting:
            return of_table
        return replace(of_table, moved_s=max(_LONG_AGO_S, told.at_ms / 1000))

    def _of_view(self, name: str, alert: RowAlert, lag: Lag) -> list[PartitionLag]:
        """What the view has not applied, and what it has applied and the alert has not decided.
        Nothing where one of the two is not known."""
        stand = self._facts.stands.get(name)
        of_view = [replace(one, view=name) for one in lag.views if one.view == alert.view]
        if stand is None or not of_view:
            return []
        behind_s = 0.0 if stand.oldest_s is None else max(0.0, lag.at_s - stand.oldest_s)
        own = PartitionLag(
            name,
            _of_rows(alert.view),
            stand.generation,
            stand.number,
            (stand.number or 0) + stand.behind,
            stand.behind,
            None,
            behind_s,
            0,
            behind_s,
            stand.noted_s,
        )
        return [own, *of_view] if stand.number is not None else [own]

    def _block(self, name: str) -> Block | None:
        letters = self._facts.letters.get(name, 0)
        if name in self._facts.gone:
            return Block("gone", self._facts.gone[name])
        if self._facts.sent_by_somebody.get(name) is False:
            return Block("not sent", "no `headwater serve` sends it: start one, or see its log")
        if letters >= MOST_LETTERS:
            return Block("dead letters", f"{plural(letters, 'dead letter')}: settle some")
        return None

    def _report(
        self, name: str, alert: RowAlert, report: ViewReport | None, problem: str
    ) -> AlertReport:
        told = self._facts.told.get(name)
        found = AlertReport(
            name,
            alert.subject,
            State.NO_DATA,
            waiting=told.waiting if told else None,
            dead_letters=self._facts.letters.get(name),
            delivered_s=told.at_ms / 1000 if told and told.at_ms else None,
            problem=problem,
        )
        if report is None or report.state == State.NO_DATA:
            block = self._block(name)  # it may be known that nobody sends what nobody has measured
            return replace(found, state=State.BLOCKED, blocked_by=block.text) if block else found
        own = [one for one in report.partitions if one.topic == _of_rows(alert.view)]
        return replace(
            found,
            state=report.state,
            undelivered_s=max(one.in_kafka_s for one in own or report.partitions),
            blocked_by=report.blocked_by.text if report.blocked_by else "",
            lag_s=report.lag_s,
            behind_records=report.behind_records,
        )

    def _group(self, name: str) -> str:
        return row_alert_group(self._config.source.name, name)


def _of_rows(view: str) -> str:
    """What stands for a topic where the changes of a view are read."""
    return f"view {view}"


def _together(told: Sequence[Kept | None]) -> Kept | None:
    """Of all partitions. One without a note has had no record since the alert began; where none has
    one, nothing is known."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    return Kept(max(one.at_ms for one in known), sum(one.waiting for one in known))
