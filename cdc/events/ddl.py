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

    def without_values(self) -> Ddl:
        """The same without what columns have where no value is given (``default``, ``missing``)."""
        told: dict[str, Any] = json.loads(self.document)
        for column in told["columns"] or ():
            column |= dict.fromkeys(_VALUES)
        document = json.dumps(told, ensure_ascii=False).encode()
        return self._replace(document=document)


def parse(message: LogicalMessage) -> Ddl | None:
    """What is in a message; None for what the trigger does not write."""
    secret, _, content = message.content.partition(b"\n")
    try:
        document: dict[str, Any] = json.loads(content)
        known = document.keys() >= _FIELDS and message.transactional
        key = {"schema": document["schema"], "table": document["table"]}
        raw = json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()
        told = secret.decode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Ddl(told, raw, content) if known else None
