"""The tables that views read, as the state database holds them. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TOLD_BY_TEXT: Final = ("smallint", "integer", "bigint", "uuid", "text", "boolean", "date")
_OF_ANY_LENGTH: Final = ("character varying", "numeric")


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """A column of a mirror.

    ``type`` is its type as ``format_type`` writes it. ``equal_image`` is false where equal values
    may differ in what they show: 1.0 and 1.00, jsonb, floats, citext, collations that are not
    deterministic. Such a column cannot be a view's key, and nothing is looked up through it.
    ``fault`` says why a column may be shown and not computed with, "" where it may.
    """

    name: str
    type: str
    nullable: bool = True
    equal_image: bool = True
    fault: str = ""

    @property
    def told_by_text(self) -> bool:
        """Whether different values have different texts, whatever the session's settings."""
        return self.type in _TOLD_BY_TEXT or self.type.startswith(_OF_ANY_LENGTH)


@dataclass(frozen=True, slots=True)
class MirrorTable:
    """A mirror: its columns in the order of the table, and its key."""

    schema: str
    name: str
    columns: tuple[MirrorColumn, ...]
    key: tuple[str, ...]

    @property
    def table(self) -> str:
        """``schema.table``, by which it is known everywhere."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> MirrorColumn | None:
        """The column of that name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)

    def not_null(self, name: str) -> bool:
        """Whether the column has a value in every row."""
        found = self.column(name)
        return found is not None and (not found.nullable or name in self.key)
