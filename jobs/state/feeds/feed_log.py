"""The log of a view's changes: appended to in the transaction in which dirty keys are let go of.

The store has been written before. So what stands in the log is what the store was given, in the
order of its writes; a write that was cut off before is done again, and told then. A row that is
what readers hold already is not told.

Numbers rise by random steps. A state database that went back to an older copy of itself, and goes
on from there, gives its new changes other numbers: who comes with a number that nobody wrote here
is told to begin anew, in place of going on with what it lacks the changes before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeVar

from cdc.errors import HeadwaterError
from cdc.source.errors import sqlstate
from jobs.state.batch.stream_offsets import Progress
from jobs.state.feeds.feed_tables import Feed
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_record import FEED_LOG_SCHEMA

_STEP: Final = 1 << 20
"""2^63 is room for some 10^13 changes."""
_TRIMMED_AT_ONCE: Final = 10_000
_TRIMMED_IN_A_TURN: Final = 10
_APPENDED_AT_ONCE: Final = 4 << 20
"""Characters: a turn may have tens of thousands of rows, and a parameter is below 1 GB."""
_UNKNOWN: Final = "42P01"
"""No such table: of a generation that is gone, or of a Headwater that had no feeds yet."""
_OVERWRITTEN: Final = (
    "on conflict (key) do update set told = excluded.told, row = excluded.row, "
    "lsn = excluded.lsn, ordinal = excluded.ordinal"
)
Found = TypeVar("Found")


class RowChange(NamedTuple):
    """Of one key, each value as text: its JSON, and that of its row, None where that is gone."""

    key: tuple[str, ...]
    told: str
    row: str | None


def append_changes(
    conn: Connection, feed: Feed, changes: Sequence[RowChange], progress: Progress
) -> None:
    """The store holds these rows; in the caller's transaction, which is on disk when it ends:
    readers see it by then, and what they have seen must not be lost. Rows that a build fills the
    store with in turns are not logged."""
    conn.execute(b"set local synchronous_commit = on")
    query = b"select last_seq, filling from headwater.feeds where view_id = %s for update"
    row = conn.execute(query, (feed.view_id,), prepare=True).fetchone()
    assert row is not None, "it goes with its generation"
    seq, is_filling = row
    for part in _parts(changes):
        if is_filling:
            _fill(conn, feed, part, progress)
        else:
            seq = _append(conn, feed, part, progress, seq)


def _parts(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    """None of them much larger than what is appended at once."""
    begin, size = 0, 0
    for at, one in enumerate(changes, 1):
        size += len(one.told) + len(one.row or "")
        if size >= _APPENDED_AT_ONCE or at == len(changes):
            yield changes[begin:at]
            begin, size = at, 0


def _append(
    conn: Connection, feed: Feed, changes: Sequence[RowChange], progress: Progress, seq: int
) -> int:
    """Numbered behind ``seq``; the last number."""
    numbers = []
    for _ in changes:
        seq += random.randint(1, _STEP)
        numbers.append(seq)
    keys = [list(column) for column in zip(*(one.key for one in changes), strict=True)]
    parameters = (
        *keys,
        [one.told for one in changes],
        [one.row for one in changes],
        numbers,
        *(progress.lsn, progress.total) * 2,
        progress.lsn,
        feed.view_id,
    )
    query = _append_sql(feed.rows, feed.log, len(keys), feed.old_rows)
    conn.execute(query, parameters, prepare=True)
    return seq


def _fill(conn: Connection, feed: Feed, changes: Sequence[RowChange], progress: Progress) -> None:
    """Rows that nobody has seen yet."""
    keys = [list(column) for column in zip(*(one.key for one in changes), strict=True)]
    names = ", ".join(f"c{number}" for number in range(len(keys)))
    arrays = ", ".join("%s::text[]" for _ in range(len(keys) + 2))
    query = (
        f"with given as (select array[{names}] as key, told, row "
        f"from unnest({arrays}) as g({names}, told, row)), "
        f"gone as (delete from {feed.rows} r using given g where r.key = g.key and g.row is null), "
        f"kept as (insert into {feed.rows} select key, told, row, %s::bigint, %s::bigint "
        f"from given where row is not null {_OVERWRITTEN}) "
        "update headwater.feeds set lsn = %s where view_id = %s"
    ).encode()
    rows = ([one.told for one in changes], [one.row for one in changes])
    position = (progress.lsn, progress.total, progress.lsn)
    conn.execute(query, (*keys, *rows, *position, feed.view_id), prepare=True)


@lru_cache(maxsize=256)
def _append_sql(rows: str, log: str, width: int, old_rows: bool) -> bytes:
    names = ", ".join(f"c{number}" for number in range(width))
    arrays = ", ".join("%s::text[]" for _ in range(width + 2))
    old = "case when row is not null then was end" if old_rows else "null"
    return (
        f"with given as (select array[{names}] as key, told, row, seq "
        f"from unnest({arrays}, %s::bigint[]) as g({names}, told, row, seq)), "
        "changed as (select g.*, r.row as was from given g "
        f"left join {rows} r on r.key = g.key where g.row is distinct from r.row), "
        f"logged as (insert into {log} (seq, told, row, op, lsn, ordinal, at, was) "
        "select seq, told, coalesce(row, was), "
        "case when row is null then 'd' when was is null then 'c' else 'u' end, "
        f"%s::bigint, %s::bigint, clock_timestamp(), {old} from changed), "
        f"kept as (insert into {rows} select key, told, row, %s::bigint, %s::bigint "
        f"from changed where row is not null {_OVERWRITTEN}), "
        f"gone as (delete from {rows} r using changed c where r.key = c.key and c.row is null) "
        "update headwater.feeds f set lsn = %s, entries = f.entries + n.count, "
        "last_seq = coalesce(n.last, f.last_seq) "
        "from (select count(*) as count, max(seq) as last from changed) n "
        "where f.view_id = %s"
    ).encode()


def trim_logs(conn: Connection, at_most: int, age_s: float) -> int:
    """Let go of changes beyond ``at_most`` of each view, and of those older than ``age_s``; how
    many they were. What an alert has not done yet is kept for twice as much of each. ``conn`` is
    in autocommit mode."""
    doing = "looking after the changes of views"
    with translated(doing):
        ids = conn.execute(b"select view_id from headwater.feeds where entries > 0").fetchall()
    # A generation may be dropped meanwhile.
    return sum(of_tables(doing, partial(_trim, conn, id_, at_most, age_s), 0) for (id_,) in ids)


def _trim(conn: Connection, view_id: int, at_most: int, age_s: float) -> int:
    """By parts, so that whoever writes the view waits for none for long."""
    log = f"{FEED_LOG_SCHEMA}.v{view_id}"
    query = (
        "with feed as (select f.entries, (select min(p.number) "
        "from headwater.view_alert_places p where p.epoch = f.epoch) as place "
        "from headwater.feeds f where f.view_id = %(id)s for update), "
        "oldest as (select seq, at, row_number() over (order by seq) as n "
        f"from (select seq, at from {log} order by seq limit {_TRIMMED_AT_ONCE}) o), "
        "weighed as (select o.*, f.entries, case when o.seq >= f.place then 2 else 1 end as fold "
        "from oldest o, feed f), "
        "spare as (select seq from weighed where n <= entries - fold * %(most)s::bigint "
        "or at < clock_timestamp() - make_interval(secs => fold * %(age)s)), "
        f"gone as (delete from {log} where seq <= (select max(seq) from spare) returning seq), "
        "counted as (select count(*) as count, max(seq) as last from gone) "
        "update headwater.feeds f set entries = f.entries - c.count, "
        "trimmed = coalesce(c.last, f.trimmed) from counted c where f.view_id = %(id)s "
        "returning c.count"
    ).encode()
    trimmed = 0
    for _ in range(_TRIMMED_IN_A_TURN):
        row = conn.execute(query, {"id": view_id, "most": at_most, "age": age_s}).fetchone()
        trimmed += row[0] if row else 0
        if row is None or row[0] < _TRIMMED_AT_ONCE:
            break
    return trimmed


def of_tables(doing: str, ask: Callable[[], Found], without: Found) -> Found:
    """What ``ask`` finds; ``without`` where there are no such tables."""
    try:
        with translated(doing):
            return ask()
    except HeadwaterError as error:
        if sqlstate(error) == _UNKNOWN:
            return without
        raise
