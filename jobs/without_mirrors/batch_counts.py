"""What a micro-batch held: counts, TRUNCATE, and how old its changes are. One Spark job."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc.events.codes import SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from jobs.batch.key_sample import LOGGED
from jobs.sinks.contract import COMMIT_LSN, COMMITTED_AT, DELETED, ORDINAL
from jobs.without_mirrors.fold import EVENT


class Account(NamedTuple):
    """Of one batch.

    ``gaps``: keys whose last change leaves values out that an earlier one may have.
    ``read`` is the oldest position of a snapshot's row, ``read_us`` when the oldest was read,
    ``deleted`` the newest position that left no row, ``newest`` that of all.
    ``filled`` is where the oldest row of a snapshot was read that has values which a change of the
    batch left out.
    ``commits_us`` samples when the oldest streamed change of a key committed.
    """

    records: int
    keys: int
    rows: int
    gaps: int
    truncated: Position | None
    commits_us: tuple[int, ...]
    read: Position | None = None
    deleted: Position | None = None
    read_us: int | None = None
    newest: Position | None = None
    filled: Position | None = None


def account(rows: DataFrame) -> Account:
    """Count ``project``'s rows. Evaluates them, so cached rows are held from here on."""
    found = counts(rows).collect()[0]
    truncated, read_at, deleted, newest = (
        None if found[name] is None else Position(*found[name])
        for name in ("truncated", "read", "deleted", "newest")
    )
    return Account(
        found["records"],
        found["keys"],
        found["rows"],
        found["gaps"],
        truncated,
        tuple(dict.fromkeys(found["commits"] or ())),
        read_at,
        deleted,
        found["read_us"],
        newest,
        None if found["filled"] is None else Position(found["filled"], 0),
    )


def counts(rows: DataFrame) -> DataFrame:
    """What ``account`` asks, in one row."""
    event = F.col(EVENT)
    keyed = event["op"] != TRUNCATE
    position, read = F.struct(COMMIT_LSN, ORDINAL), event["op"] == SNAPSHOT
    ranks = [number / (LOGGED - 1) for number in range(LOGGED)]
    return rows.agg(
        F.coalesce(F.sum(event["records"]), F.lit(0)).alias("records"),
        F.count_if(keyed).alias("keys"),
        F.count_if(keyed & ~F.col(DELETED)).alias("rows"),
        F.count_if(event["gap"]).alias("gaps"),
        F.max(F.when(~keyed, position)).alias("truncated"),
        F.min(F.when(read, position)).alias("read"),
        F.min(F.when(read, F.unix_micros(COMMITTED_AT))).alias("read_us"),
        F.max(F.when(keyed & F.col(DELETED) & ~read, position)).alias("deleted"),
        F.max(position).alias("newest"),
        F.min(F.when(F.size(event["read"]) > 0, event["read_lsn"])).alias("filled"),
        F.percentile_approx(F.when(keyed, event["oldest_us"]), ranks).alias("commits"),
    )
