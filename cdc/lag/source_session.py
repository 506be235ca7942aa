"""A session with the source for looks at it: opened when it is needed, cut when it is silent."""

from __future__ import annotations

from typing import Final

from cdc.lag.slot_activity import SlotActivity, slot_activity
from cdc.source.bounded_query import answered
from cdc.source.postgres import Connection, connect
from cdc.source.slot import SourceIdentity, identify

_ANSWER_S: Final = 10.0


class SourceSession:
    """Use from one thread. What it raises is a ``HeadwaterError``; call ``close`` then.
    ``volume_bytes`` is the size of the WAL volume, if it was declared."""

    def __init__(self, dsn: str, volume_bytes: int | None = None) -> None:
        self._dsn, self._volume_bytes = dsn, volume_bytes
        self._conn: Connection | None = None

    def activity(self, slot: str) -> SlotActivity:
        """What the source says of a slot now."""
        conn = self._opened()
        with answered(conn, _ANSWER_S):
            return slot_activity(conn, slot).on_volume(self._volume_bytes)

    def identity(self) -> SourceIdentity:
        """Which database this is."""
        conn = self._opened()
        with answered(conn, _ANSWER_S):
            return identify(conn)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _opened(self) -> Connection:
        if self._conn is None:
            self._conn = connect(self._dsn, application_name="headwater lag")
        return self._conn
