"""Keys and values of dead letters for people, where their schemas are in a registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cdc.errors import HeadwaterError

if TYPE_CHECKING:
    from cdc.registry.schemas import SchemaRegistry


def in_json(registry: SchemaRegistry | None, data: bytes) -> bytes:
    """What a key or a value says; as it is where nobody can tell, or it is JSON already."""
    if registry is None or not data.startswith(b"\0"):
        return data
    try:
        return json.dumps(registry.value(data), ensure_ascii=False, separators=(",", ":")).encode()
    except (HeadwaterError, ValueError):
        return data
