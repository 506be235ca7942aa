"""JSON of events as values. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

_MINUS_ZERO: Final = re.compile(rb"-0[,}\]]").search
Loads = Callable[[bytes], Any]


def json_value(text: bytes, loads: Loads = json.loads) -> Any:
    """What the text says; a float's -0 keeps its sign. ``loads`` reads all other texts."""
    if _MINUS_ZERO(text) is None:
        return loads(text)
    return json.loads(text, parse_int=_number)


def _number(digits: str) -> float:
    return -0.0 if digits == "-0" else int(digits)
