"""When a change can be read in a store, by who knows nothing but the store.

A change writes its *mark*, a number that is larger than all before it, into a row of its own. A
look asks a store which of the marks that were not seen yet are there now, as its readers find
them: Redis by key, OpenSearch by a search, Delta by the newest versions of its table.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from opensearchpy import OpenSearch
from redis import Redis

from cdc.errors import FatalError

Look = Callable[[Sequence[int]], list[int]]
"""From the lowest marks not seen yet, in their order, to those that can be read now."""
AHEAD: Final = 2_000
"""So many marks that were not seen yet are looked for: ten seconds of changes."""
_PROBES: Final = 16
"""Writers that take turns come out of order by less than that."""
_FOUND: Final = 10_000


class Watcher(threading.Thread):
    """Looks again and again, and notes when each mark could first be read.

    Use within ``watching``; ``seen`` may be looked at from any thread.
    """

    def __init__(self, look: Look, marks: range, pause_s: float) -> None:
        super().__init__(name="watcher", daemon=True)
        self._look, self._marks, self._pause_s = look, marks, pause_s
        self._halt = threading.Event()
        self.seen: dict[int, int] = {}
        """Monotonic ns by mark, taken when the look's answer was there."""
        self.looks_ns: list[int] = []
        """Monotonic ns of each look's answer: no figure is finer than the time between two."""
        self._failure: Exception | None = None

    def run(self) -> None:
        lowest = 0
        try:
            while not self._halt.is_set() and lowest < len(self._marks):
                ahead = self._marks[lowest : lowest + AHEAD]
                found = self._look([mark for mark in ahead if mark not in self.seen])
                at_ns = time.monotonic_ns()
                for mark in found:
                    if mark in self._marks:
                        self.seen.setdefault(mark, at_ns)
                while lowest < len(self._marks) and self._marks[lowest] in self.seen:
                    lowest += 1
                self.looks_ns.append(at_ns)
                time.sleep(self._pause_s)
        except Exception as error:  # whatever a client raises is told by ``check``
            self._failure = error

    @property
    def look_ms(self) -> float:
        """The time from one look's answer to the next, on average."""
        spans = max(1, len(self.looks_ns) - 1)
        return (self.looks_ns[-1] - self.looks_ns[0]) / 1e6 / spans

    def check(self) -> None:
        """Raise ``FatalError`` for what ended the looking."""
        if self._failure is not None:
            raise FatalError(f"a store cannot be read: {self._failure!r}")

    def end(self) -> None:
        self._halt.set()
        self.join()


@contextmanager
def watching(look: Look, marks: range, pause_s: float) -> Iterator[Watcher]:
    """A watcher that runs."""
    watcher = Watcher(look, marks, pause_s)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.end()


def in_redis(url: str, view: str, column: str, row_of: Callable[[int], int]) -> Look:
    """Rows read by their keys. ``row_of`` says which row a mark is written to.

    The lowest marks are asked for; the others only when some of these have come.
    """
    client = Redis.from_url(url)
    prefix = _text(client.get(f"{view}@live"))

    def there(marks: Sequence[int]) -> list[int]:
        pipe = client.pipeline(transaction=False)
        for mark in marks:
            pipe.hget(f"{prefix}:{row_of(mark)}", "doc")
        return [
            mark
            for mark, document in zip(marks, pipe.execute(), strict=True)
            if document is not None and _mark(json.loads(document)[column]) == mark
        ]

    def look(marks: Sequence[int]) -> list[int]:
        found = there(marks[:_PROBES])
        return found + there(marks[_PROBES:]) if found else []

    return look


def in_opensearch(url: str, view: str, columns: Sequence[str]) -> Look:
    """Documents found by a search for marks that have not come yet, in any of ``columns``."""
    client = OpenSearch(url)

    def look(marks: Sequence[int]) -> list[int]:
        at_least = [{"range": {column: {"gte": marks[0]}}} for column in columns]
        query = {"bool": {"should": at_least, "minimum_should_match": 1}}
        body = {"size": _FOUND, "query": query, "_source": list(columns)}
        hits = client.search(index=view, body=body)["hits"]["hits"]
        return [_mark(hit["_source"][column]) for hit in hits for column in columns]

    return look


class InDelta:
    """Rows of the data files that each new version of a table adds.

    A version is there for readers when its file in the log is; that is asked for, and only what it
    adds is read. Files that are written anew without a change of data are left out.
    """

    def __init__(self, table: Path, column: str) -> None:
        self._table, self._column = table, column
        self._next = 1 + max(int(file.stem) for file in self._log.glob("*.json"))

    @property
    def _log(self) -> Path:
        return self._table / "_delta_log"

    def __call__(self, marks: Sequence[int]) -> list[int]:
        found: list[int] = []
        while (version := self._log / f"{self._next:020}.json").exists():
            for added in _added(version):
                found += self._marks(added, marks[0])
            self._next += 1
        return found

    def _marks(self, name: str, lowest: int) -> list[int]:
        news = [(self._column, ">=", Decimal(lowest))]
        rows = pq.read_table(self._table / name, columns=[self._column], filters=news)
        return [_mark(value) for value in rows.column(0).to_pylist()]


def _added(version: Path) -> list[str]:
    lines = [json.loads(line) for line in version.read_text(encoding="utf-8").splitlines()]
    adds: list[Mapping[str, Any]] = [line["add"] for line in lines if "add" in line]
    return [unquote(add["path"]) for add in adds if add["dataChange"]]


def _mark(value: Any) -> int:
    """The mark that a stored number is: numeric is text in documents."""
    return int(Decimal(str(value)))


def _text(value: Any) -> str:
    if value is None:
        raise FatalError("Redis does not hold the view")
    return bytes(value).decode()
