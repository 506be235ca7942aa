"""JSON of events as values. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

_MINUS_ZERO: Final = re.compile(rb"-0[,}\]]").search


def json_value(text: bytes) -> Any:
    """What the text says; a float's -0 keeps its sign."""
    if _MINUS_ZERO(text) is None:
        return orjson.loads(text)
    return json.loads(text, parse_int=_number)


def _number(digits: str) -> float:
    return -0.0 if digits == "-0" else int(digits)
