"""What a view's SQL asks of single texts where Spark has no exact function of its own. Pure.

Spark calls ``FUNCTION(text, asked)``. ``asked`` says what: the same for every row of an
expression, as JSON, so that one function serves all views and needs no code made for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cdc.events.codes import PLACEHOLDER
from views.spark.expressions.json_text import Step, UnfitJsonError, kind, length, part, part_as_text

FUNCTION = "headwater_text"
REFUSED = "\0"
"""The answer for a value that PostgreSQL refuses, or that is nested too deep to be looked at: in no
text of PostgreSQL."""


def asking(question: str, steps: Sequence[Step] = (), binary: bool = False, of: Any = None) -> str:
    """What ``answering`` reads. ``steps`` lead to the part of the JSON text that is meant, which is
    ``jsonb`` if ``binary``; ``of`` is what the question needs besides."""
    return json.dumps([question, steps, binary, of])


@lru_cache(maxsize=1000)
def answering(asked: str) -> Callable[[str], str | None]:
    """The function that answers: a text, or None for NULL."""
    question, listed, binary, of = json.loads(asked)
    steps = [Step(*step) for step in listed]
    answer = _QUESTIONS[question]

    def answered(text: str) -> str | None:
        if text == PLACEHOLDER:
            return None
        try:
            return answer(text, steps, binary, of)
        except (ValueError, IndexError):  # UnfitJsonError, or no JSON at all
            return REFUSED
        except RecursionError:  # nested deeper than Python reads: of one row, not of the view
            return REFUSED

    return answered


def _number(text: str, steps: Sequence[Step], binary: bool, _: Any) -> str | None:
    found = part_as_text(text, steps, binary)
    return None if found is None else numeric_text(found)


def numeric_text(text: str) -> str:
    """``text::numeric::text``, of a number with digits. Raises ``UnfitJsonError`` for others."""
    found = _NUMBER.fullmatch(text)
    exponent = int(found["exponent"] or 0) if found else 0
    if found is None or abs(exponent) > _FARTHEST:
        raise UnfitJsonError("no number")
    value = Decimal(f"{found['digits']}e{exponent}")
    return ("-" if found["sign"] == "-" and value else "") + f"{value:f}"


_NUMBER = re.compile(
    r"\s*(?P<sign>[+-]?)(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?\s*",
    re.ASCII,
)
_FARTHEST = 1000
"""Exponents beyond are no numbers that people write, and would make texts of any length."""


def _of_part(ask: Callable[[str, Any], str]) -> Callable[..., str | None]:
    def answer(text: str, steps: Sequence[Step], binary: bool, of: Any) -> str | None:
        found = part(text, steps, binary) if steps else text
        return None if found is None else ask(found, of)

    return answer


def _has(text: str, name: str) -> str:
    """``jsonb ? 'name'``."""
    value = _value(text)
    items = value if isinstance(value, dict | list) else [value]
    return _BOOL[name in items]


def _contains(text: str, wanted: str) -> str:
    """``jsonb @> 'wanted'``."""
    return _BOOL[contains(_value(text), _value(wanted), top=True)]


_BOOL = {True: "true", False: "false"}


def _value(text: str) -> Any:
    """Numbers are decimals: as many digits as there are."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def contains(value: Any, wanted: Any, top: bool = False) -> bool:
    """Whether ``value`` has all of ``wanted``. At the ``top``, an array has a value of its own."""
    if isinstance(wanted, Mapping):
        if not isinstance(value, Mapping):
            return False
        return all(name in value and contains(value[name], of) for name, of in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return False
        return all(any(contains(item, one) for item in value) for one in wanted)
    if top and isinstance(value, list):
        return any(contains(item, wanted) for item in value)
    return type(value) is type(wanted) and bool(value == wanted)


_QUESTIONS: dict[str, Callable[..., str | None]] = {
    "part": lambda text, steps, binary, _: part(text, steps, binary),
    "text": lambda text, steps, binary, _: part_as_text(text, steps, binary),
    "length": _of_part(lambda text, _: length(text)),
    "kind": _of_part(lambda text, _: kind(text)),
    "has": _of_part(_has),
    "contains": _of_part(_contains),
    "number": _number,
    "numeric": lambda text, *_: numeric_text(text),
}
