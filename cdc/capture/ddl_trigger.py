"""The event trigger that tells of DDL (migrations/ddl_events.sql): which messages are its own."""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from time import monotonic
from typing import Final

from cdc.source.bounded_query import asking
from cdc.source.errors import translated
from cdc.source.postgres import Connection

_ASK_EVERY_S: Final = 1.0
"""Whoever floods the stream with messages of his own must not make a question of each."""
_READABLE: Final = """
select coalesce(pg_catalog.has_schema_privilege(n.oid, 'usage')
                and pg_catalog.has_table_privilege(c.oid, 'select'), false)
from pg_catalog.pg_namespace n
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'secret'
where n.nspname = 'headwater_ddl'
"""
_SECRET: Final = "select value from headwater_ddl.secret"


class DdlTrigger:
    """Its secret, asked for when a message brings one that is not known. ``clock`` in seconds."""

    def __init__(self, dsn: str, clock: Callable[[], float] = monotonic) -> None:
        self._dsn = dsn
        self._clock = clock
        self._secret: str | None = ""
        self._ask_at = 0.0

    @property
    def unreadable(self) -> bool:
        """Whether there is a secret that this role may not read, as far as was asked."""
        return self._secret is None

    def wrote(self, secret: str) -> bool:
        """Whether a message with this secret is the trigger's."""
        if not self._is(secret) and self._clock() >= self._ask_at:
            self._ask_at = self._clock() + _ASK_EVERY_S
            with asking(self._dsn) as conn:
                self._secret = trigger_secret(conn)
        return self._is(secret)

    def _is(self, secret: str) -> bool:
        known = self._secret or ""
        return bool(known) and compare_digest(secret.encode(), known.encode())


def trigger_secret(conn: Connection) -> str | None:
    """What the trigger's messages begin with; empty where there is no trigger, None where this role
    may not read it."""
    with translated("reading the secret of the DDL trigger"):
        readable = conn.execute(_READABLE).fetchone()
        if readable is None:
            return ""
        if not readable[0]:
            return None
        row = conn.execute(_SECRET).fetchone()
    return str(row[0]) if row else ""
