"""What the event trigger (migrations/ddl_events.sql) says of DDL, as records. Pure."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from cdc.events.records import COMMIT_HEADER, POSITION_HEADER, Record
from cdc.lsn import Position
from cdc.protocol.messages import LogicalMessage

PREFIX: Final = "headwater.ddl"
_FIELDS: Final = frozenset({"tag", "oid", "schema", "table", "renamed", "columns"})
_VALUES: Final = ("default", "missing")


class Ddl(NamedTuple):
    """What a message holds: the ``secret`` that only the trigger and capture know, if the trigger
    wrote it, and the document, keyed by its table."""

    secret: str
    key: bytes
    document: bytes

    def record(self, position: Position, commit_ms: int) -> Record:
        """The record of a change."""
        return {
            "key": self.key,
            "value": self.document,
            "headers": [
                (POSITION_HEADER, position.hex().encode()),
                (COMMIT_HEADER, b"%d" % commit_ms),
            ],
        }


def parse(message: LogicalMessage, values: bool = True) -> Ddl | None:
    """What is in a message, without ``values`` also without what columns have where none is given
    (``default``, ``missing``); None for what the trigger does not write: any role may write such
    messages."""
    secret, _, content = message.content.partition(b"\n")
    try:
        document: dict[str, Any] = json.loads(content)
        known = document.keys() >= _FIELDS and message.transactional
        known = known and all(isinstance(one, dict) for one in document["columns"] or ())
        key = {"schema": document["schema"], "table": document["table"]}
        raw = json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()
        told = secret.decode()
        if not values:
            for column in document["columns"] or ():
                column |= dict.fromkeys(_VALUES)
            content = json.dumps(document).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Ddl(told, raw, content) if known else None
