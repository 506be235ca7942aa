"""A backlog: rows that change over and over, and `headwater apply --available-now` to its end."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from benchmarks.capture.shapes import STRIDE
from benchmarks.environment import Setting, headwater
from benchmarks.peers.spark_merge_process import Spans
from benchmarks.views.process import at_of, events
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_TRANSACTION_ROWS: Final = 1_000
_TIMEOUT_S: Final = 600.0


class Caught(NamedTuple):
    """How long a view took to its topics' end, and how many rows it gave its store till then."""

    spans: Spans
    written: int


def update_rows(
    setting: Setting, conn: Connection, table: str, assignments: str, rows: int, numbers: range
) -> None:
    """``assignments`` (SQL of ``i``) in a row for each number ``i``: one row after the other, in an
    order that is not theirs, and then again."""
    step = min(_TRANSACTION_ROWS, rows)  # no row twice in a transaction
    with translated(f"updating {table}"):
        conn.execute("set synchronous_commit = off")
        for first in range(numbers.start, numbers.stop, step):
            last = min(numbers.stop, first + step) - 1
            conn.execute(
                f"update public.{table} set {assignments} from generate_series({first}, {last}) i"
                f" where id = 1 + mod(i::bigint * {STRIDE}, {rows})".encode()
            )
            setting.watch(f"updating {table}", last / numbers.stop)
        conn.execute("reset synchronous_commit")


def catch_up(setting: Setting, source: str, view: str) -> Caught:
    """``headwater apply`` of a view up to the end of its topics. Raises ``FatalError``."""
    log, began = f"apply-{view}", time.monotonic()
    command = ("apply", view, "--available-now", "--json")
    headwater(setting, source, *command, log=log, timeout_s=_TIMEOUT_S)
    process_s = time.monotonic() - began
    lines = setting.log(log)
    started, ended = next(events(lines, "stream_started")), next(events(lines, "caught_up"))
    written = sum(line["rows"] for line in events(lines, "rows_applied"))
    return Caught(Spans(process_s, at_of(ended) - at_of(started)), written)
