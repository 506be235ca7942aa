"""Probes: transactions that every view shows, and when each can be read in each view.

A probe writes its *mark*, a number larger than all before it, into an order, its lines, a product
and a comment that nothing else writes to. Probes go from one such row to the next, so a view shows
a probe as soon as its row of that probe's place shows this mark or a later one of the same place.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.many.shop import PROBE, PROBES, uuid_text
from cdc.errors import FatalError
from cdc.source.postgres import Connection, connect

Look = Callable[[Sequence[int]], Iterable[int]]
"""From marks that were not seen yet, in their order, to marks that can be read now."""
_FINEST_S: Final = 0.02
"""From one look at a store to the next, when a probe is on its way."""
_COARSEST_S: Final = 0.5
_OF_AGE: Final = 0.03
"""What is late is looked for less often: by so much of the oldest probe's age."""
_STATEMENT: Final = b"""
with of_order as (update public.orders set mark = %(mark)s where id = %(number)s),
     of_lines as (update public.lines set mark = %(mark)s where order_id = %(number)s),
     of_product as (update public.products set mark = %(mark)s where id = %(product)s)
update public.comments set mark = %(mark)s where id = %(comment)s
"""


class Probes:
    """What was sent and what was seen of it. Times are monotonic ns; any thread may call."""

    def __init__(self, views: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._sent: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._seen: dict[str, dict[int, int]] = {view: {} for view in views}
        self._unseen: dict[str, dict[int, None]] = {view: {} for view in self._seen}
        self._failure: Exception | None = None

    def send(self, conn: Connection) -> None:
        """Commit the next probe."""
        with self._lock:
            mark = len(self._sent) + 1
            self._sent[mark] = time.monotonic_ns()
            for unseen in self._unseen.values():
                unseen[mark] = None
        conn.execute(_STATEMENT, written_by(mark))
        with self._lock:
            self._committed[mark] = time.monotonic_ns()

    def unseen(self, view: str) -> list[int]:
        """Marks that are on their way to a view, in their order."""
        with self._lock:
            return list(self._unseen[view])

    def age_s(self, mark: int) -> float:
        """Since a probe was sent."""
        return (time.monotonic_ns() - self._sent[mark]) / 1e9

    def note(self, view: str, visible: Iterable[int], at_ns: int) -> None:
        """Marks that a view shows at a time."""
        with self._lock:
            for mark in reached(self._unseen[view], visible):
                self._seen[view][mark] = at_ns
                del self._unseen[view][mark]

    def waits_ms(self, view: str, begin_ns: int, end_ns: int) -> list[float]:
        """How long the probes took that were committed in a time, shortest first.

        One that was not seen yet has taken as long as it has been on its way until now.
        """
        with self._lock:
            now, seen = time.monotonic_ns(), self._seen[view]
            counted = ((m, at) for m, at in self._committed.items() if begin_ns <= at < end_ns)
            return sorted((seen.get(mark, now) - at) / 1e6 for mark, at in counted)

    def missing(self, before_ns: int) -> dict[str, int]:
        """How many probes committed before a time the views do not show; those that lack some."""
        with self._lock:
            old = {mark for mark, at in self._committed.items() if at < before_ns}
            counts = {view: len(old & marks.keys()) for view, marks in self._unseen.items()}
            return {view: count for view, count in counts.items() if count}

    def fail(self, error: Exception) -> None:
        """A thread has ended by this."""
        self._failure = error

    def check(self) -> None:
        """Raise ``FatalError`` for what ended a thread."""
        if self._failure is not None:
            raise FatalError(f"probes: {self._failure!r}")


def written_by(mark: int) -> Mapping[str, Any]:
    """The rows of a probe's place, and the mark."""
    number = PROBE + mark % PROBES
    product, comment = uuid_text("product", number), uuid_text("comment", number)
    return {"mark": mark, "number": number, "product": product, "comment": comment}


def reached(unseen: Iterable[int], visible: Iterable[int]) -> list[int]:
    """Those of the marks that are visible, or that a later one of their place has replaced."""
    newest: dict[int, int] = {}
    for mark in visible:
        place = mark % PROBES
        newest[place] = max(mark, newest.get(place, 0))
    return [mark for mark in unseen if mark <= newest.get(mark % PROBES, -1)]


@contextmanager
def looking(probes: Probes, stores: Mapping[str, Mapping[str, Look]]) -> Iterator[None]:
    """A thread for each store looks at its views while the block runs."""
    halt = threading.Event()
    threads = [
        threading.Thread(target=_look, args=(probes, looks, halt), name=f"looks at {store}")
        for store, looks in stores.items()
    ]
    with _running(threads, halt):
        yield


@contextmanager
def sending(probes: Probes, dsn: str, rate_per_s: float) -> Iterator[None]:
    """Probes are committed while the block runs, at times that no cadence can be in step with."""
    halt = threading.Event()
    arguments = (probes, dsn, rate_per_s, halt)
    with _running([threading.Thread(target=_send, args=arguments, name="probes")], halt):
        yield


@contextmanager
def _running(threads: Sequence[threading.Thread], halt: threading.Event) -> Iterator[None]:
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        halt.set()
        for thread in threads:
            thread.join()


def _send(probes: Probes, dsn: str, rate_per_s: float, halt: threading.Event) -> None:
    chance = random.Random(1)
    try:
        with connect(dsn, application_name="headwater bench probes") as conn:
            while not halt.wait(chance.uniform(0.5, 1.5) / rate_per_s):
                probes.send(conn)
    except Exception as error:  # told by ``check``
        probes.fail(error)


def _look(probes: Probes, looks: Mapping[str, Look], halt: threading.Event) -> None:
    try:
        pause_s = _FINEST_S
        while not halt.wait(pause_s):
            oldest_s = 0.0
            for view, look in looks.items():
                if unseen := probes.unseen(view):
                    visible = look(unseen)
                    probes.note(view, visible, time.monotonic_ns())
                    oldest_s = max(oldest_s, probes.age_s(unseen[0]))
            pause_s = min(_COARSEST_S, max(_FINEST_S, oldest_s * _OF_AGE))
    except Exception as error:  # whatever a client raises is told by ``check``
        probes.fail(error)
