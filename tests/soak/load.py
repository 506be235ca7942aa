"""The shop's application at a steady rate, whose session begins anew when the source comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

import psycopg

from benchmarks.many.load import FIRST_NUMBER
from benchmarks.many.shop import Sizes, uuid_text
from benchmarks.many.transactions import Statement, transactions

LIVE: Final = 4_000
"""So many transactions later an order or a comment is deleted again: the shop does not grow."""
_LEFT_OUT: Final = ("delete order", "delete comment")
"""Of older rows: the shop would shrink."""
_AGAIN_S: Final = 0.2


class Load(threading.Thread):
    """``written`` counts commits, ``failed`` transactions that met a server that was away, as the
    newest ``error`` says; whether one of these was committed is not known, nor asked."""

    def __init__(self, dsn: str, rate_per_s: float, sizes: Sizes, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.written = self.failed = 0
        self.error = "none failed"
        self._dsn, self._rate_per_s = dsn, rate_per_s
        self._planned = steady(sizes, seed)
        self._halt = threading.Event()

    def end(self) -> None:
        """Returns when nothing is written any more."""
        self._halt.set()
        self.join(60)
        assert not self.is_alive(), "the load does not end"

    def run(self) -> None:
        """Until ``end``."""
        while not self._halt.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=10) as conn:
                    self._write(conn)
            except psycopg.Error as error:
                self.failed += 1
                self.error = f"{type(error).__name__}: {error}".splitlines()[0]
                self._halt.wait(_AGAIN_S)

    def _write(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        due = time.monotonic()
        for statements in self._planned:
            with conn.pipeline(), conn.transaction():
                for sql, values in statements:
                    conn.execute(sql.encode(), values)
            self.written += 1
            due += 1 / self._rate_per_s
            if self._halt.wait(max(0.0, due - time.monotonic())):
                return


def steady(sizes: Sizes, seed: int) -> Iterator[tuple[Statement, ...]]:
    """The transactions of the shop, each of which also deletes what the one that was ``LIVE``
    before it has inserted, if anything. Without an end. Pure."""
    for number, one in enumerate(transactions(sizes, seed, FIRST_NUMBER), FIRST_NUMBER):
        if one.kind not in _LEFT_OUT:
            old = number - LIVE
            yield (
                *one.statements,
                ("delete from lines where order_id = %s", (old,)),
                ("delete from orders where id = %s", (old,)),
                ("delete from comments where id = %s", (uuid_text("comment", old),)),
            )
