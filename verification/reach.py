"""Waiting until a view has applied everything that was committed below an LSN."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cdc.errors import RetryableError
from cdc.events.marks import Mark, decode_mark
from cdc.kafka.broker import Broker, Offsets, last_record
from cdc.lsn import format_lsn
from cdc.topics import progress_topic, view_group

_POLL_S = 0.1


def wait_until_applied(
    broker: Broker,
    source: str,
    view: str,
    topics: Sequence[str],
    lsn: int,
    deadline: float,
    on_wait: Callable[[str], None] = lambda _: None,
) -> None:
    """Return when ``view`` has applied all transactions with a commit LSN below ``lsn``.

    First capture has to have published them, which its progress mark says together with where
    they end in each partition; then the view's group has to have committed these offsets.
    ``deadline`` is ``time.monotonic``'s. Raises ``RetryableError`` that says what is awaited.
    """
    mark = newest_mark(broker, source)
    while mark is None or mark.lsn < lsn - 1:
        said = f"everything below {format_lsn(lsn)} in Kafka; capture is "
        said += "at no position yet" if mark is None else f"at {format_lsn(mark.lsn)}"
        _wait(said, "is `headwater capture` running?", deadline, on_wait)
        mark = newest_mark(broker, source)
    wanted = {topic: dict(mark.offsets.get(topic, {})) for topic in topics}
    while behind := unapplied(wanted, broker.committed(view_group(view), topics)):
        topic, partition, at, end = behind[0]
        place = "nothing" if at is None else f"{at:,} of {end:,}"
        said = f"view {view} to apply {topic}-{partition}: it has applied {place}"
        _wait(said, f"is `headwater apply {view}` running?", deadline, on_wait)


def newest_mark(broker: Broker, source: str) -> Mark | None:
    """How far capture has come, None when it never ran."""
    topic = progress_topic(source)
    record = last_record(broker, topic)
    if record is None or record.value is None:
        return None
    return decode_mark(record.value, topic)


def unapplied(wanted: Offsets, committed: Offsets) -> list[tuple[str, int, int | None, int]]:
    """Partitions that are not yet at the wanted offset: topic, partition, committed, wanted.

    One that never held a record is applied, also by a view that never committed.
    """
    behind = []
    for topic, ends in wanted.items():
        for partition, end in ends.items():
            at = committed.get(topic, {}).get(partition)
            if (at or 0) < end:
                behind.append((topic, partition, at, end))
    return behind


def _wait(what: str, hint: str, deadline: float, on_wait: Callable[[str], None]) -> None:
    if time.monotonic() > deadline:
        raise RetryableError(f"waited for {what}", hint)
    on_wait(what)
    time.sleep(_POLL_S)
