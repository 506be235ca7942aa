"""The tables that views read, as the state database holds them. Pure values."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from views.table_versions import TableColumn, TableVersion, treatment_fault
from views.types import TEXT, PgType, array_of, collated

_TOLD_BY_TEXT: Final = ("smallint", "integer", "bigint", "uuid", "text", "boolean", "date")
_OF_ANY_LENGTH: Final = ("character varying", "numeric")
_ONE_TEXT: Final = frozenset(
    ("int2", "int4", "int8", "oid", "bool", "uuid", "enum", "date", "time", "timestamp", "bytea")
) | {"timestamptz", "text", "varchar", "name", "inet", "cidr", "macaddr", "macaddr8", "pg_lsn"}
"""Types of which equal values have one text."""
LACKS: Final = "the state database does not have"
"""How the fault of a column begins that another state database would not have."""
LACKS_TYPE: Final = f"{LACKS} its type"
OTHER_CURRENCY: Final = (
    "the state database computes with hundredths, which the currency of the source (lc_monetary) "
    "does not have"
)


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """A column of a mirror.

    ``type`` is its type as ``format_type`` writes it. ``equal_image`` is false where equal values
    may differ in what they show: 1.0 and 1.00, jsonb, floats, citext, collations that are not
    deterministic. Such a column cannot be a view's key, and nothing is looked up through it.
    ``fault`` says why a column may be shown and not computed with, "" where it may; ``lost`` why
    events do not have its values exactly: no view may read it.
    """

    name: str
    type: str
    nullable: bool = True
    equal_image: bool = True
    fault: str = ""
    lost: str = ""

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


def mirror_of(
    version: TableVersion,
    embedded: bool = False,
    lacking: Container[str] = (),
    lost: Callable[[TableColumn], str] = lambda _: "",
) -> MirrorTable:
    """A table as its mirror will be planned over; ``embedded``: in the database that apply starts,
    which has no ICU, and so no collation that takes different texts for equal. ``lacking`` are
    types that the state database cannot have: of their values it keeps the text. ``lost`` tells why
    events do not have a column's values exactly."""

    def column(one: TableColumn) -> MirrorColumn:
        kind, collation = collated(one.type)
        one_text = has_one_text(kind) and not collation
        fault = f"{LACKS} the collation {collation}" if collation and embedded else ""
        if (kind.element or kind.name) in lacking:
            one_text, fault = False, text_fault(kind.element or kind.name)
            kind = array_of(TEXT) if kind.element else TEXT
        if one.treatment:
            one_text, fault = False, treatment_fault(one.treatment)
        return MirrorColumn(one.name, str(kind), one.nullable, one_text, fault, lost(one))

    columns = tuple(column(one) for one in version.columns)
    return MirrorTable(version.schema, version.table, columns, version.key)


def text_fault(base: str) -> str:
    """Why the state database keeps values of a type as text; ``base`` is the element's of an
    array."""
    return OTHER_CURRENCY if base == "money" else LACKS_TYPE


def has_one_text(kind: PgType) -> bool:
    """Whether equal values of a type have one text."""
    return kind.name in _ONE_TEXT or (kind.name == "numeric" and kind.precision >= 0)
