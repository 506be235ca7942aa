"""An event as it is read back, whatever its form. Pure."""

from __future__ import annotations

from typing import Any


def payload(document: Any) -> Any:
    """The event in a record's parsed value, without the schema that may be around it."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document
