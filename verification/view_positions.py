"""How far views have come in the source's history, and waiting until they have come far enough.

A view holds everything that was committed below an LSN when capture has published it, which its
progress mark says together with where that ends in each partition, and the view's group has
committed these offsets. That is exact also for a view which had nothing of it to apply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import orjson

from cdc.errors import RetryableError, ViewError
from cdc.events.marks import Mark
from cdc.kafka import marks
from cdc.kafka.broker import Broker, Offsets, Place, Stretch
from cdc.lag.measure import commit_lsn, of_these_topics
from cdc.lsn import format_lsn
from cdc.registry.schemas import Read
from cdc.topics import view_group

T = TypeVar("T")

_POLL_S = 0.03
_AWAY_POLL_S = 0.5
PATIENCE_S = 0.1
"""A mark of what was committed a moment ago needs no longer, usually."""


class Behind(NamedTuple):
    """A partition of which a view lacks something. ``at`` None: nothing was ever applied."""

    topic: str
    partition: int
    at: int | None
    end: int

    @property
    def records(self) -> int:
        return self.end - (self.at or 0)


Lacking: TypeAlias = Mapping[str, Sequence[Behind]]
"""Of each view that lacks something."""


class NotReachedError(RetryableError):
    """The time was over first. ``lacking`` says what of Kafka each view lacks; it is empty while
    capture itself has not come so far, and while Kafka does not answer. ``ends`` is what is
    captured, and where that ended when it was found."""

    def __init__(
        self, message: str, hint: str, lacking: Lacking | None = None, ends: Offsets | None = None
    ) -> None:
        super().__init__(message, hint)
        self.lacking = {view: tuple(behind) for view, behind in (lacking or {}).items()}
        self.ends = ends or {}


class StoppedError(ViewError):
    """Of a view whose stream a fault has ended: it is not waited for. ``lacking`` as above."""

    def __init__(self, message: str, hint: str, lacking: Lacking) -> None:
        super().__init__(message, hint)
        self.lacking = {view: tuple(behind) for view, behind in lacking.items()}


def wait_until_applied(
    broker: Broker,
    source: str,
    views: Mapping[str, Sequence[str]],
    lsn: int,
    deadline: float,
    on_wait: Callable[[str], None] = lambda _: None,
    on_pause: Callable[[], None] = lambda: None,
    on_lacking: Callable[[Lacking], None] = lambda _: None,
    on_away: Callable[[str], None] = lambda _: None,
    on_mark: Callable[[Mark], None] = lambda _: None,
) -> Offsets:
    """Return when ``views``, each with its topics, have applied all transactions with a commit LSN
    below ``lsn``; what is captured, and where that ended then.

    ``on_pause`` is called once if capture needs longer than a moment to come so far, ``on_lacking``
    at each look, with the views that lack something, ``on_away`` once of each time that Kafka does
    not answer, ``on_mark`` of each mark that is read. ``deadline`` is ``time.monotonic``'s. Raises
    ``NotReachedError`` that says what is awaited.
    """

    def asked(question: Callable[[], T]) -> T:
        return _answered(question, broker, deadline, on_wait, on_away)

    def mark() -> Mark | None:
        found = asked(lambda: newest_mark(broker, source))
        if found is not None:
            on_mark(found)
        return found

    def lacked(left: Mapping[str, Sequence[str]]) -> Lacking:
        lacking: dict[str, Sequence[Behind]] = {}
        for view, topics in left.items():
            wanted = {topic: ends.get(topic, {}) for topic in topics}
            if behind := unapplied(wanted, _committed(broker, view, wanted)):
                lacking[view] = behind
        return lacking

    ends = _published(mark, lsn, deadline, on_wait, on_pause)
    topics = list({topic: None for of_view in views.values() for topic in of_view})
    ends = asked(partial(_with_added, broker, ends, topics))
    left = dict(views)
    while True:
        lacking = asked(partial(lacked, left))
        if not lacking:
            return ends
        on_lacking(lacking)
        left = {view: left[view] for view in lacking}
        _wait(*_said(lacking), deadline, on_wait, lacking, ends=ends)


def _committed(broker: Broker, view: str, wanted: Offsets) -> Offsets:
    """What the view's group has committed. Kafka is asked how long topics are only where that is
    more than ``wanted``."""
    found = broker.committed(view_group(view), list(wanted))
    ahead = [
        topic
        for topic, of_topic in found.items()
        if any(at > wanted[topic].get(p, 0) for p, at in of_topic.items())
    ]
    return of_these_topics(found, broker.end_offsets(ahead)) if ahead else found


def _with_added(broker: Broker, ends: Offsets, topics: Sequence[str]) -> Offsets:
    """Where topics end, also those that capture has sent nothing to: they hold the rows that
    ``table add`` brought, which no mark tells of."""
    added = broker.partitions([topic for topic in topics if topic not in ends])
    return {**ends, **broker.end_offsets(list(added))} if added else ends


def _answered(
    question: Callable[[], T],
    broker: Broker,
    deadline: float,
    on_wait: Callable[[str], None],
    on_away: Callable[[str], None],
) -> T:
    """What Kafka says, asked again until ``deadline`` while it does not answer."""
    told = False
    while True:
        try:
            return question()
        except RetryableError as error:
            broker.close()  # a new connection tells at once whether it is back
            if not told:
                on_away(f"{error.message}; waiting for it")
            told = True
            _wait(f"Kafka: {error.message}", error.hint, deadline, on_wait, {}, _AWAY_POLL_S)


def _published(
    newest: Callable[[], Mark | None],
    lsn: int,
    deadline: float,
    on_wait: Callable[[str], None],
    on_pause: Callable[[], None],
) -> Offsets:
    """Where each partition ended when all of it was in Kafka, that is at ``lsn`` or a bit later."""
    patient, told = min(deadline, time.monotonic() + PATIENCE_S), False
    mark = newest()
    while mark is None or mark.confirmed < lsn:
        if not told and time.monotonic() >= patient:
            on_pause()
            told = True
        said = f"everything below {format_lsn(lsn)} in Kafka; capture is "
        said += "at no position yet" if mark is None else f"at {format_lsn(mark.confirmed)}"
        _wait(said, "check that `headwater capture` is running", deadline, on_wait, {})
        mark = newest()
    return mark.offsets


def _said(lacking: Lacking) -> tuple[str, str]:
    view, behind = next(iter(lacking.items()))
    first = behind[0]
    place = "nothing" if first.at is None else f"{first.at:,} of {first.end:,}"
    said = f"view {view} to apply {first.topic}-{first.partition}: it has applied {place}"
    return said, f"check that `headwater apply` is running for {', '.join(lacking)}"


def newest_mark(broker: Broker, source: str) -> Mark | None:
    """How far capture has come, None when it never ran."""
    stored = marks.newest_mark(broker, source)
    return stored.mark if stored else None


def unapplied(wanted: Offsets, committed: Offsets) -> list[Behind]:
    """Partitions that are not yet at the wanted offset.

    One that never held a record is applied, but not by a view that committed nothing of its topic:
    that was not built, and the table may have had rows before it was captured.
    """
    behind = []
    for topic, ends in wanted.items():
        of_topic = committed.get(topic, {})
        for partition, end in ends.items():
            at = of_topic.get(partition)
            if not of_topic or (at or 0) < end:
                behind.append(Behind(topic, partition, at, end))
    return behind


def applied_below(
    broker: Broker, source: str, view: str, topics: Sequence[str], read: Read = orjson.loads
) -> int | None:
    """The LSN below which a view holds everything that was committed: that of its first change
    which is not applied, else where capture is. ``read`` tells what a value says.

    None when nobody can say: nothing was applied, capture never ran, or records of it are gone.
    """
    committed = broker.committed(view_group(view), topics)  # before the mark: never too far
    committed = of_these_topics(committed, broker.end_offsets(topics))
    mark = newest_mark(broker, source)
    if mark is None:
        return None
    oldest, reached = broker.beginning_offsets(topics), mark.confirmed
    ends = _with_added(broker, mark.offsets, topics)
    stretches: dict[Place, Stretch] = {}
    for one in unapplied({topic: ends.get(topic, {}) for topic in topics}, committed):
        if one.at is None or one.at < oldest[one.topic][one.partition]:
            return None
        stretches[one.topic, one.partition] = one.at, one.end
    first = broker.first_values(stretches)
    lsns = (commit_lsn(topic, records[-1], read) for (topic, _), records in first.items())
    return min((reached, *(lsn for lsn in lsns if lsn is not None)))


def _wait(
    what: str,
    hint: str,
    deadline: float,
    on_wait: Callable[[str], None],
    lacking: Lacking,
    pause_s: float = _POLL_S,
    ends: Offsets | None = None,
) -> None:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise NotReachedError(f"waited for {what}", hint, lacking, ends)
    on_wait(what)
    time.sleep(min(pause_s, left_s))
