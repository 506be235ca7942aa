"""Names as Avro and Protobuf have them: letters, digits and ``_``, no digit first. Pure.

What is not allowed becomes ``_``, as with Debezium's ``schema.name.adjustment.mode = avro``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cdc.errors import SourceError

_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_]")


def plain_name(name: str) -> str:
    """One name, without dots."""
    found = _NOT_ALLOWED.sub("_", name)
    return f"_{found}" if found[:1].isdigit() or not found else found


def full_name(name: str) -> str:
    """A name with the dots of its namespace."""
    return ".".join(map(plain_name, name.split(".")))


def plain_names(names: Iterable[str], of: str) -> dict[str, str]:
    """The fields of ``of`` by their own names. Raises ``SourceError`` where two become one."""
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name in names:
        plain = found[name] = plain_name(name)
        if (other := taken.setdefault(plain, name)) != name:
            raise SourceError(
                f"{of}: the columns {other} and {name} are both called {plain} where names have "
                "letters, digits and _ only",
                'rename one, leave it out with source.columns, or set events.format = "json"',
            )
    return found
