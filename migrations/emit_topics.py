"""The topics that ``headwater.emit`` accepts, as the configuration names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import psycopg

from cdc.errors import SourceError

_KNOWN: Final = "select name from headwater.emit_topic where source = %s"
_ADD: Final = "insert into headwater.emit_topic (source, name) select %s, unnest(%s::text[])"
_REMOVE: Final = "delete from headwater.emit_topic where source = %s and name = any(%s)"


def set_emit_topics(conn: psycopg.Connection[Any], source: str, topics: Iterable[str]) -> bool:
    """Let ``emit`` accept these of a source and no others; whether that changed anything.

    Raises ``SourceError``.
    """
    wanted = set(topics)
    try:
        with conn.transaction():
            known = {name for (name,) in conn.execute(_KNOWN, (source,))}
            if wanted != known:
                conn.execute(_ADD, (source, sorted(wanted - known)))
                conn.execute(_REMOVE, (source, sorted(known - wanted)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"writing capture.emit_topics to the source: {error.diag.message_primary}",
            "run `headwater init` with the role that owns the schema headwater",
        ) from error
    except psycopg.Error as error:
        raise SourceError(f"writing capture.emit_topics to the source: {error}") from error
    return wanted != known
