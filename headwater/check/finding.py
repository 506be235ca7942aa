"""What a check saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cdc.errors import sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw. ``hint`` is the way out of a warning or an error; ``sql`` are statements
    that are it, for whoever may run them."""

    level: Literal["ok", "warning", "error"]
    check: str
    message: str
    hint: str = ""
    sql: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hint", sentence(self.hint))


def by_sql(level: Literal["warning", "error"], check: str, message: str, *sql: str) -> Finding:
    """A finding whose way out is to run some statements."""
    return Finding(level, check, message, "; ".join(sql), sql)
