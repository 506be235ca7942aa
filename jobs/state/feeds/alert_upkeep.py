"""What is deleted of alerts over views, and when: it has to be certain that nobody misses it.

An alert that is no longer declared may come back, with another configuration or by a server that
has the old one, and goes on where it was. So its place is kept as long as Kafka keeps, by default,
the offsets of a group that nobody is a member of. What readers of a view have seen is kept from the
generation on that some alert reads, and of each generation that there is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from jobs.state.feeds.alert_places import lock_name
from jobs.state.server.connection import Connection, translated

UNDECLARED_S: Final = 7 * 86_400.0
_NOTED_EVERY: Final = "1 hour"

_NOTE: Final = (
    "update headwater.view_alerts set seen_at = clock_timestamp() where alert = any(%s) "
    f"and seen_at < clock_timestamp() - interval '{_NOTED_EVERY}'"
)
_UNDECLARED: Final = (
    "select alert from headwater.view_alerts where alert <> all(%s) "
    "and seen_at < clock_timestamp() - make_interval(secs => %s)"
)
_FORGET: Final = (
    "delete from headwater.view_alerts where alert = %s "
    "and seen_at < clock_timestamp() - make_interval(secs => %s)"
)
_PLACES: Final = (
    "delete from headwater.view_alert_places p using headwater.view_alerts a "
    "where a.alert = p.alert and p.epoch <> a.epoch "
    "and p.epoch not in (select epoch from headwater.feeds)"
)
"""In logs that are gone: an alert that comes to one of them stops, with or without its place."""
_NEWEST: Final = "select max(o.number) from headwater.feed_shows o where o.epoch = {}.epoch"
_SHOWS: Final = (
    "delete from headwater.feed_shows s where not exists (select from headwater.view_alerts a "
    f"where a.view = s.name and s.number >= coalesce(({_NEWEST.format('a')}), 0)) "
    f"and (s.epoch not in (select epoch from headwater.feeds) "
    f"or s.number < ({_NEWEST.format('s')}))"
)
"""An alert looks for what was shown behind the newest time that its own generation was."""


def forget_alerts(
    conn: Connection, source: str, declared: Collection[str], after_s: float = UNDECLARED_S
) -> list[str]:
    """Delete what is kept of alerts that were neither among ``declared`` nor read by a server for
    so long, and what no alert needs any more of what readers have seen; the alerts' names. ``conn``
    is in autocommit mode."""
    names = [*declared]
    with translated("looking after alerts over views"):
        conn.execute(_NOTE.encode(), (names,))
        found = conn.execute(_UNDECLARED.encode(), (names, after_s)).fetchall()
        gone = [alert for (alert,) in found if _is_forgotten(conn, source, alert, after_s)]
        conn.execute(_PLACES.encode())
        conn.execute(_SHOWS.encode())
    return gone


def _is_forgotten(conn: Connection, source: str, alert: str, after_s: float) -> bool:
    """Unless a server reads for it: then it is noted that one does."""
    lock = b"select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(%s, 0))"
    with conn.transaction():
        row = conn.execute(lock, (lock_name(source, alert),)).fetchone()
        if row is not None and row[0]:
            return bool(conn.execute(_FORGET.encode(), (alert, after_s)).rowcount)
        seen = b"update headwater.view_alerts set seen_at = clock_timestamp() where alert = %s"
        conn.execute(seen, (alert,))
        return False
