"""How late views are, for an application that asks now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import HeadwaterError
from cdc.lag.report import ViewReport
from cdc.lag.states import GOOD, State
from headwater.lag.watch import LagWatch, Seen


class ViewLag(NamedTuple):
    """How far a view is behind the source: the figures of ``headwater lag``.

    ``behind_s`` is the age in seconds of the oldest commit that the view's store lacks, in Kafka or
    not, 0 if it lacks none; None in state ``no data``. In state ``source unknown`` it is at least
    that. ``behind_records`` are in Kafka and not applied. ``blocked_by`` says what somebody has to
    correct in state ``blocked``, and is "" otherwise. ``parked_keys`` counts keys whose rows are
    missing or old until their dead letters are retried.
    """

    view: str
    state: State
    behind_s: float | None
    behind_records: int
    parked_keys: int
    blocked_by: str = ""

    @property
    def fresh(self) -> bool:
        """Whether the view lacks nothing, or only changes of the last seconds; never of a view of
        which that is not known."""
        return self.state in GOOD


class ViewLags:
    """Use from one thread. It keeps its connections, and compares each look with those before: that
    tells a backlog which shrinks from one that grows."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._looks: LagWatch | None = None
        self._names: frozenset[str] = frozenset()

    def look(self, views: Sequence[str]) -> Mapping[str, ViewLag]:
        """Of these views, all if there are none. Raises ``UsageError`` for a view that is not
        declared, ``RetryableError`` while source or Kafka do not answer, and what else keeps a view
        from being measured."""
        names = views or tuple(self._config.views)
        try:
            seen = self._seen(names)
        except HeadwaterError:
            self.close()
            raise
        for name in names:
            if (error := seen.unmeasured.get(name)) is not None:
                raise error
        return {one.view: view_lag(one) for one in seen.report.views if one.view in names}

    def close(self) -> None:
        """Release connections. The next look connects again."""
        if self._looks is not None:
            self._looks.close()
            self._looks = None

    def _seen(self, names: Sequence[str]) -> Seen:
        if self._looks is not None and self._names.issuperset(names):
            return self._looks.look()
        self.close()
        self._names |= set(names)
        self._looks = LagWatch(lambda: self._config, sorted(self._names))
        return self._looks.settled()


def view_lag(report: ViewReport) -> ViewLag:
    """Of one view. Pure."""
    return ViewLag(
        report.view,
        report.state,
        None if report.state == State.NO_DATA else report.lag_s,
        report.behind_records,
        report.parked_keys,
        report.blocked_by.text if report.blocked_by else "",
    )
