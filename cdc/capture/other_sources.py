"""Topics of emitted events that other sources of the same database publish.

Each capture of a database reads what is emitted for any of them, for WAL is one. What
``headwater init`` wrote into ``headwater.emit_topic`` says whose a topic is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final

import structlog

from cdc.errors import HeadwaterError
from cdc.log_events import LogEvent
from cdc.source.bounded_query import asking
from cdc.source.errors import translated

_ASK_EVERY_S: Final = 1.0
"""Whoever floods the stream with names of his own must not make a question of each."""
_THERE: Final = "select pg_catalog.to_regclass('headwater.emit_topic') is not null"
_OTHERS: Final = "select name, source from headwater.emit_topic where source <> %s"

log = structlog.get_logger("capture")


class OtherSources:
    """Asked of the source when a topic is met that is not known. ``clock`` in seconds."""

    def __init__(self, dsn: str, source: str, clock: Callable[[], float] = monotonic) -> None:
        self._dsn, self._source, self._clock = dsn, source, clock
        self._topics: Mapping[str, str] = {}
        self._told = set[str]()
        self._ask_at = 0.0

    def publish(self, topic: str) -> bool:
        """Whether one of them does; told once of each topic."""
        if topic not in self._topics and self._clock() >= self._ask_at:
            self._ask_at = self._clock() + _ASK_EVERY_S
            with suppress(HeadwaterError):  # then it is told as nobody's: no reason to end
                self._topics = topics_of_others(self._dsn, self._source)
        if (source := self._topics.get(topic)) is None:
            return False
        if topic not in self._told:
            self._told.add(topic)
            log.info(LogEvent.EMITTED_FOR_ANOTHER_SOURCE, topic=topic, source=source)
        return True


def topics_of_others(dsn: str, source: str) -> Mapping[str, str]:
    """The sources, other than this one, by the topics that ``headwater.emit`` takes for them."""
    with asking(dsn) as conn, translated("reading the topics of headwater.emit"):
        if conn.execute(_THERE).fetchone() != (True,):
            return {}
        return dict(conn.execute(_OTHERS, (source,)).fetchall())
