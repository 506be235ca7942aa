"""What a check saw."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """What one check saw. ``hint`` is the way out of a warning or an error."""

    level: Literal["ok", "warning", "error"]
    check: str
    message: str
    hint: str = ""
