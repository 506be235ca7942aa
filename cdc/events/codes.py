"""The codes of events: what ``op`` says, and what stands for a value that was not sent. Pure."""

from __future__ import annotations

from typing import Final

CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
SNAPSHOT: Final = "r"
TRUNCATE: Final = "t"

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""In place of a TOASTed value that an UPDATE left alone and the server did not send."""


def quoted(code: str) -> bytes:
    """As it stands in an event's JSON."""
    return f'"{code}"'.encode()
