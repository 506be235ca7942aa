"""Patterns of tables, as ``source.tables`` and routes have them. Pure.

A pattern is ``schema.table``. ``*`` stands for any run of characters; nothing else is special,
so ``_`` and ``%`` are themselves. Names are compared as the catalog holds them: no case folding.
A part in double quotes is taken literally, dots and stars included, ``""`` being one quote.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cdc.errors import one_line

_PART = r'("(?:[^"]|"")+"|[^".]+)'
_PATTERN = re.compile(rf"\s*{_PART}\.{_PART}\s*")


class Pattern(NamedTuple):
    """A parsed pattern; ``exact`` when it can name one table only."""

    text: str
    schema: re.Pattern[str]
    table: re.Pattern[str]
    exact: bool

    def matches(self, schema: str, table: str) -> bool:
        return bool(self.schema.fullmatch(schema)) and bool(self.table.fullmatch(table))


def parse_pattern(text: str) -> Pattern:
    """Raises ``ValueError`` with the reason for anything that is not ``schema.table``."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        way = 'quote names that hold dots or quotes, as in public."my.table"'
        if re.fullmatch(_PART, text.strip()):
            way = f"write public.{text.strip()}, or the schema it is in"
        raise ValueError(one_line(f"{text!r} is not schema.table", way))
    exact = not any("*" in part and not part.startswith('"') for part in match.groups())
    return Pattern(text, _expression(match[1]), _expression(match[2]), exact)


def _expression(part: str) -> re.Pattern[str]:
    if part.startswith('"'):
        return re.compile(re.escape(part[1:-1].replace('""', '"')))
    return re.compile(".*".join(re.escape(piece) for piece in part.split("*")), re.DOTALL)
