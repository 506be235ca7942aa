"""What the event trigger (migrations/ddl_events.sql) says of DDL, as records. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

from cdc.events.records import POSITION_HEADER, Record
from cdc.lsn import Position
from cdc.protocol.messages import LogicalMessage

PREFIX: Final = "headwater.ddl"
_FIELDS: Final = frozenset({"tag", "oid", "schema", "table", "renamed", "columns"})


def record(message: LogicalMessage, position: Position, timestamp: int) -> Record | None:
    """The record of a message, keyed by its table; None for what the trigger does not write."""
    try:
        document: dict[str, Any] = json.loads(message.content)
        known = document.keys() >= _FIELDS and message.transactional
        key = {"schema": document["schema"], "table": document["table"]}
        raw = json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not known:
        return None
    return {
        "key": raw,
        "value": message.content,
        "timestamp": timestamp,
        "headers": [(POSITION_HEADER, position.hex().encode())],
    }
