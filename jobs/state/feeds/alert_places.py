"""The logs of a view's changes as an alert reads them, and where it is in each.

Places are kept beside the logs, so that both go back together where a state database is restored
from an older copy. A new alert begins at the ends of all logs that its view has. A log that is
begun later, by a build, is read from its start, as that is when readers are shown it; one that they
go back to, by a rollback, from where the alert has left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from cdc.errors import LogError
from jobs.state.feeds.feed_log import of_tables
from jobs.state.feeds.feed_reader import AT_ONCE, AT_ONCE_BYTES, LoggedChange
from jobs.state.feeds.logged_views import refuse_unlogged
from jobs.state.server.connection import Connection, translated
from jobs.state.views.view_record import FEED_LOG_SCHEMA

_ANEW: Final = (
    "give the alert another name, to begin at the end of what is kept, and find out otherwise what "
    "it has missed"
)

_HELD: Final = """
select from pg_catalog.pg_locks l, pg_catalog.hashtextextended(%s, 0) as key
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
  and l.classid::bigint = (key >> 32) & 4294967295 and l.objid::bigint = key & 4294967295
"""
_SINCE: Final = (
    "select epoch, number from headwater.feed_shows where name = %(view)s and number > ("
    "select max(s.number) from headwater.feed_shows s join headwater.view_alerts a using (epoch) "
    "where a.alert = %(alert)s)"
)
_NEXT: Final = f"select epoch from ({_SINCE}) s order by number limit 1"
_LATER: Final = (
    "select f.view_id, p.number from headwater.view_alert_places p join headwater.feeds f "
    f"using (epoch) where p.alert = %(alert)s and p.epoch in (select epoch from ({_SINCE}) s)"
)
"""The logs that it comes to after that which it reads."""


@dataclass(frozen=True, slots=True)
class AlertLog:
    """The log of one generation. ``columns`` as ``feed_tables`` writes them; ``old_rows`` says
    whether changes are logged with the row before; ``number`` is of the next change to decide, and
    ``note`` was noted with it."""

    view_id: int
    view: str
    generation: int
    key: tuple[str, ...]
    columns: tuple[dict[str, Any], ...]
    epoch: str
    old_rows: bool
    number: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class AlertPart:
    """Some changes from a number on. ``is_shown``: readers of the view see this generation."""

    is_shown: bool
    changes: Sequence[tuple[LoggedChange, str | None]]
    """Each with the row before an update, None where that is not logged."""


def lock_name(source: str, alert: str) -> str:
    """Of the advisory lock of whoever reads for it."""
    return f"headwater alert {source} {alert}"


def hold_alert(conn: Connection, source: str, alert: str) -> bool:
    """Whether ``conn`` is the one that reads for this alert, as long as it lives."""
    query = b"select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended(%s, 0))"
    with translated(f"locking alert {alert}"):
        row = conn.execute(query, (lock_name(source, alert),)).fetchone()
    return bool(row and row[0])


def begin_alert(conn: Connection, alert: str, view: str) -> bool:
    """Have an alert that is new to its view begin at the ends of the view's logs; whether it is.
    What it had of another view is forgotten, and its places in logs that are gone. It is noted that
    somebody reads for it."""
    with translated(f"looking for alert {alert}"), conn.transaction():
        conn.execute(
            b"delete from headwater.view_alerts where alert = %s and view <> %s", (alert, view)
        )
        conn.execute(
            b"delete from headwater.view_alert_places p using headwater.view_alerts a "
            b"where a.alert = %s and p.alert = a.alert and p.epoch <> a.epoch "
            b"and p.epoch not in (select epoch from headwater.feeds)",
            (alert,),
        )
        conn.execute(
            b"update headwater.view_alerts set seen_at = clock_timestamp() where alert = %s",
            (alert,),
        )
        made = conn.execute(
            b"insert into headwater.view_alerts (alert, view, epoch) "
            b"select %s, name, epoch from headwater.feeds where name = %s and shown "
            b"on conflict do nothing",
            (alert, view),
        )
        if made.rowcount:
            conn.execute(
                b"insert into headwater.view_alert_places (alert, epoch, number) "
                b"select %s, epoch, last_seq + 1 from headwater.feeds where name = %s",
                (alert, view),
            )
    return bool(made.rowcount)


def alert_log(conn: Connection, alert: str, view: str) -> AlertLog:
    """What an alert that has begun reads now. Raises ``LogError`` where that is gone."""
    query = (
        "select f.view_id, f.name, v.generation, v.key, f.columns, f.epoch, f.old_rows, p.number, "
        "p.note "
        "from headwater.view_alerts a join headwater.view_alert_places p using (alert, epoch) "
        "join headwater.feeds f using (epoch) join headwater.views v on v.id = f.view_id "
        "where a.alert = %s"
    )
    with translated(f"looking for the changes of view {view}"):
        row = conn.execute(query.encode(), (alert,)).fetchone()
    if row is None:
        raise LogError(
            f"view {view}: the generation whose changes alert {alert} was reading has been dropped",
            _ANEW,
        )
    view_id, name, generation, key, columns, epoch, old_rows, number, note = row
    return AlertLog(
        view_id, name, generation, tuple(key), tuple(columns), epoch, old_rows, number, note
    )


def go_over(conn: Connection, alert: str, view: str) -> bool:
    """Have an alert that has decided all of its log go on with that of the generation that readers
    have seen next, where it has a place since then; whether there is one. Raises ``RetryableError``
    where there is none because what readers see has no log."""
    with translated(f"going on with another generation of view {view}"):
        row = conn.execute(_NEXT.encode(), {"alert": alert, "view": view}).fetchone()
        if row is not None:
            query = b"update headwater.view_alerts set epoch = %s where alert = %s"
            conn.execute(query, (row[0], alert))
            return True
    refuse_unlogged(conn, view)
    return False


def note_place(conn: Connection, alert: str, epoch: str, number: int, note: str) -> None:
    """Everything below ``number`` is decided, and delivered or put aside; ``note`` is kept with it,
    and the time."""
    query = (
        b"update headwater.view_alert_places set number = %s, note = %s, "
        b"noted_at = clock_timestamp() where alert = %s and epoch = %s"
    )
    with translated(f"noting the place of alert {alert}"):
        conn.execute(query, (number, note, alert, epoch), prepare=True)


def read_part(conn: Connection, log: AlertLog, number: int) -> AlertPart:
    """Some of the changes that are numbered from ``number`` on: behind a change that was written
    here, or of one. Raises ``LogError`` where they are not all there."""
    table = f"{FEED_LOG_SCHEMA}.v{log.view_id}"
    some = f"select * from {table} where seq >= %(from)s order by seq limit {AT_ONCE}"
    query = (
        "select f.shown, f.trimmed, %(from)s - 1 in (f.trimmed, f.last_seq) "
        f"or exists (select from {table} where seq in (%(from)s - 1, %(from)s)), "
        "s.seq, s.told, s.row, s.op, s.lsn, s.ordinal, s.at, s.was "
        "from headwater.feeds f left join ("
        "select *, sum(size) over (order by seq) - size as before "
        f"from (select *, length(row) + coalesce(length(was), 0) as size from ({some}) o) o) s "
        f"on s.before < {AT_ONCE_BYTES} where f.view_id = %(id)s order by s.seq"
    ).encode()
    with translated(f"reading the changes of view {log.view}"):
        rows = conn.execute(query, {"from": number, "id": log.view_id}, prepare=True).fetchall()
    if not rows:
        raise LogError(f"view {log.view}: generation {log.generation} was dropped", _ANEW)
    is_shown, trimmed, is_known = rows[0][:3]
    if number <= trimmed:
        raise LogError(
            f"view {log.view}: the next change is no longer kept (apply.keep_changes, "
            "apply.keep_changes_s)",
            _ANEW,
        )
    if not is_known:
        raise LogError(f"view {log.view}: the next change is unknown here", _ANEW)
    found = [(LoggedChange(*row[3:10]), row[10]) for row in rows if row[3] is not None]
    return AlertPart(is_shown, with_old_rows(log.view, found))


def with_old_rows(
    view: str, changes: Sequence[tuple[LoggedChange, str | None]]
) -> Sequence[tuple[LoggedChange, str | None]]:
    """Those before the first update that was logged without its row before. Raises ``LogError``
    where that is the first of all."""
    for at, (change, was) in enumerate(changes):
        if change.op == "u" and was is None:
            if at:
                return changes[:at]
            raise LogError(
                f"view {view}: the next change was logged without the row before it, by a "
                "`headwater apply` that did not know of the alert",
                _ANEW,
            )
    return changes


class AlertStand(NamedTuple):
    """Where an alert is in the log that it reads: ``number`` and ``generation``, None and 0 before
    it has begun; how many changes are ``behind`` that, also in the logs of generations that
    readers have seen since, since when the oldest of them is logged, and what was noted with the
    place, when. ``is_held``: a server reads for it. Moments are in seconds
    since 1970."""

    number: int | None
    generation: int
    behind: int
    oldest_s: float | None
    note: str
    noted_s: float | None
    is_held: bool


def alert_stand(conn: Connection, source: str, alert: str) -> AlertStand:
    """As anybody may look at it. Raises ``LogError`` where its log has been dropped."""
    with translated(f"looking for alert {alert}"):
        held = conn.execute(_HELD.encode(), (lock_name(source, alert),)).fetchone()
        query = (
            "select a.view, p.note, extract(epoch from p.noted_at)::float8 "
            "from headwater.view_alerts a join headwater.view_alert_places p using (alert, epoch) "
            "where a.alert = %s"
        )
        row = conn.execute(query.encode(), (alert,)).fetchone()
    is_held = held is not None
    if row is None:
        return AlertStand(None, 0, 0, None, "", None, is_held)
    view, note, noted_s = row
    log = alert_log(conn, alert, view)
    behind, oldest_s = _behind(conn, alert, log, log.number)
    return AlertStand(log.number, log.generation, behind, oldest_s, note, noted_s, is_held)


def count_from(conn: Connection, alert: str, log: AlertLog, number: int) -> int:
    """How many changes an alert has in front of it, which is at this one of its log."""
    return _behind(conn, alert, log, number)[0]


def _behind(conn: Connection, alert: str, log: AlertLog, number: int) -> tuple[int, float | None]:
    """The same, and when the oldest of them was logged."""
    doing = f"counting the changes of view {log.view}"
    with translated(doing):
        later = conn.execute(_LATER.encode(), {"alert": alert, "view": log.view}).fetchall()
    nothing: tuple[int, float | None] = 0, None
    found = []
    for view_id, first in [(log.view_id, number), *later]:
        query = (
            "select count(*), extract(epoch from min(at))::float8 "
            f"from {FEED_LOG_SCHEMA}.v{view_id} where seq >= %s"
        ).encode()
        # A generation may be dropped meanwhile.
        found.append(of_tables(doing, partial(_one, conn, query, first), nothing))
    moments = [at for _, at in found if at is not None]
    return sum(count for count, _ in found), min(moments, default=None)


def _one(conn: Connection, query: bytes, number: int) -> tuple[int, float | None]:
    row = conn.execute(query, (number,)).fetchone()
    assert row is not None, "it counts"
    return row[0], row[1]
