"""Settings whose names have dots: TOML reads ``time.precision.mode`` as a table in a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def flat(table: Mapping[str, Any], known: Collection[str], before: str = "") -> dict[str, Any]:
    """The settings by their whole names; ``known`` are those with dots."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        whole = f"{before}{name}"
        if isinstance(value, dict) and any(one.startswith(f"{whole}.") for one in known):
            found |= flat(value, known, f"{whole}.")
        else:
            found[whole] = value
    return found
