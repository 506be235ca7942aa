"""The alerts on rows of `headwater serve`: each a thread that begins, goes on, and says why not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, TypeVar

import structlog

from cdc.alarms.sender import Sender
from cdc.config import Config, RowAlert
from cdc.errors import HeadwaterError, RetryableError, SourceError, UsageError
from cdc.log_events import LogEvent
from cdc.metrics import serve_catalog as catalog
from cdc.metrics.exposition import Sample
from cdc.protocol.relation import Relation
from headwater.alerts.counts import Counts
from headwater.alerts.delivery import Delivering, Settings
from headwater.alerts.letters import LetterBox
from headwater.alerts.rule import Rule
from headwater.alerts.table_source import Find, TableSource
from headwater.alerts.view_source import ViewSource
from headwater.conditions.condition import ConditionError

_PAUSES_S: Final = (1.0, 5.0, 15.0, 60.0)
_MISFIT_S: Final = 60.0
"""After so long a table that does not fit an alert is looked at again."""
_STOP_S: Final = 8.0
T = TypeVar("T")

log = structlog.get_logger("serve")


class RowAlerts:
    """All of a configuration. Raises ``UsageError`` for a condition that does not parse. One that
    does not fit its table as it is now ends neither the server nor other alerts: it is logged, and
    looked at again."""

    def __init__(self, config: Config, find: Find) -> None:
        self._source = config.source.name
        self._alerts = [
            _Alert(config, name, alert, find) for name, alert in config.alerts.rows.items()
        ]

    def start(self) -> None:
        """Begin to read and to send."""
        for one in self._alerts:
            one.start()

    def close(self) -> None:
        """Each ends what is under way and commits. Waits some seconds for all together."""
        for one in self._alerts:
            one.ending.set()
        deadline = time.monotonic() + _STOP_S
        for one in self._alerts:
            one.join(max(0.0, deadline - time.monotonic()))

    def samples(self) -> Iterator[Sample]:
        """For Prometheus."""
        for one in self._alerts:
            labels, counts = (self._source, one.name), one.counts
            yield Sample(catalog.ROW_ALERT_RUNNING, labels, one.is_running)
            yield Sample(catalog.ROW_ALERT_SENT, labels, counts.sent)
            yield Sample(catalog.ROW_ALERT_FAILED, labels, counts.failed)
            yield Sample(catalog.ROW_ALERT_DEAD_LETTERS, labels, counts.letters)
            if one.is_running:
                yield Sample(catalog.ROW_ALERT_LAG, labels, counts.lag)


def fitting_relation(config: Config, name: str, find: Find) -> Relation:
    """What an alert is of: its table, or the rows of its view. Raises ``UsageError`` where there is
    none, or the alert does not fit it, ``RetryableError`` where the source or the state database
    does not answer."""
    return _Alert(config, name, config.alerts.rows[name], find).relation()


class _Alert:
    def __init__(self, config: Config, name: str, alert: RowAlert, find: Find) -> None:
        self.name, self.counts = name, Counts()
        self.is_running = False
        self._fits_now = False
        self._joined_s: float | None = None
        self.ending = threading.Event()
        self._config, self._alert = config, alert
        self._sender = Sender(alert.webhook, config.alerts.secret_of(alert))
        self._source: TableSource | ViewSource
        if alert.view:
            self._source = ViewSource(config, name, alert)
        else:
            self._source = TableSource(config, name, alert, find)
        self._rule = self._made()
        self._thread = threading.Thread(target=self._run, name=f"alert {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, patience_s: float) -> None:
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def relation(self) -> Relation:
        """Raises ``UsageError`` where there is none, or the alert does not fit it."""
        return self._source.relation(self._fits)

    def _made(self) -> Rule:
        """With nothing remembered of versions."""
        source, version = self._config.source.name, self._source.version
        return _told(self.name, lambda: Rule(source, self.name, self._alert, version))

    def _fits(self, relation: Relation) -> None:
        """Called before anything is read: of a view by the server that reads for all."""
        _told(self.name, lambda: self._rule.refuse_misfit(relation))
        self._fits_now = True

    def _run(self) -> None:
        """The thread."""
        tried, told = 0, ""
        while not self.ending.is_set():
            try:
                self._follow()
                break
            except (RetryableError, SourceError) as error:
                joined_s = self._joined_s
                lasted = joined_s is not None and time.monotonic() - joined_s >= _PAUSES_S[-1]
                tried = 0 if lasted else tried
                pause_s = _PAUSES_S[min(tried, len(_PAUSES_S) - 1)]
                tried += 1
                log.warning(LogEvent.ROW_ALERT_WAITS, alert=self.name, error=error.message,
                            hint=error.hint, again_in_s=pause_s)  # fmt: skip
            except UsageError as error:  # of the table as it is now
                pause_s = _MISFIT_S
                if error.message != told:
                    self._stopped(error)
                told = error.message
            except HeadwaterError as error:
                self._stopped(error)
                break
            except Exception as error:  # a bug of one alert ends no other, and is not silent
                log.error(LogEvent.ROW_ALERT_STOPPED, alert=self.name, error=repr(error))
                break
            self.is_running = False
            self.ending.wait(pause_s)
        self.is_running = False

    def _stopped(self, error: HeadwaterError) -> None:
        log.error(LogEvent.ROW_ALERT_STOPPED, alert=self.name, error=error.message,
                  hint=error.hint)  # fmt: skip

    def _follow(self) -> None:
        """Until told to end."""
        self._rule = self._made()
        self._fits_now, self._joined_s = False, None
        topic = self._source.begin(self._fits)
        alert = self._alert
        settings = Settings(
            self.name, topic, alert.at_once, alert.give_up_after, self._sender.send,
            self._rule.message,
        )  # fmt: skip
        with closing(LetterBox(self._config)) as letters:
            delivering = Delivering(settings, letters, self.counts)
            reader = self._source.reader(topic, delivering.revoked)
            with closing(reader), delivering.reading(reader):
                self._joined_s = time.monotonic()
                while not self.ending.is_set():
                    self.is_running = self._fits_now
                    delivering.turn()


def _told(name: str, call: Callable[[], T]) -> T:
    """Say of which alert a fault is."""
    try:
        return call()
    except ConditionError as error:
        raise UsageError(f"alerts.rows.{name}: {error}", error.hint) from None
