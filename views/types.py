"""PostgreSQL types as views see them: how they are held in Spark and what may be done with them.

A type whose values Spark cannot hold exactly (``numeric`` without limits, ``uuid``, ``interval``,
``inet``…) is held as the text the event carries, which loses nothing.
"""

from __future__ import annotations

from typing import NamedTuple

INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
STRINGS = ("text", "varchar", "name")
_SPARK = {
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "oid": "bigint",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "bytea": "binary",
}
_MAX_PRECISION = 38  # of a Spark decimal
_COLLATE = " collate "


class PgType(NamedTuple):
    """``name`` is the base ``typname`` ("array", "enum" as in ``TypeInfo.base``).

    ``precision`` and ``scale`` are those of a numeric, or -1. ``element`` names the base type of
    an array's elements. ``unknown`` is the type of a quoted literal and of NULL. ``struct`` is an
    object that a view nests, with its ``fields`` by name; an array of them has their fields.
    """

    name: str
    precision: int = -1
    scale: int = 0
    element: str = ""
    fields: tuple[tuple[str, PgType], ...] = ()

    @property
    def exact(self) -> bool:
        """A numeric with limits that a Spark decimal can keep."""
        return self.name == "numeric" and 0 <= self.scale <= self.precision <= _MAX_PRECISION > 0

    @property
    def item(self) -> PgType:
        """The type of an array's elements."""
        return PgType(self.element, self.precision, self.scale, fields=self.fields)

    @property
    def spark(self) -> str:
        """The Spark SQL type that holds the values."""
        if self.name == "array":
            return f"array<{self.item.spark}>"
        if self.name == "struct":
            fields = (f"`{name.replace('`', '``')}`: {kind.spark}" for name, kind in self.fields)
            return f"struct<{', '.join(fields)}>"
        if self.exact:
            return f"decimal({self.precision},{self.scale})"
        return _SPARK.get(self.name, "string")

    def __str__(self) -> str:
        if self.name == "array":
            return f"{self.item}[]"
        if self.name == "struct":
            return f"({', '.join(f'{name} {kind}' for name, kind in self.fields)})"
        if self.name == "numeric" and self.precision >= 0:
            return f"numeric({self.precision},{self.scale})"
        return self.name


UNKNOWN = PgType("unknown")
BOOL = PgType("bool")
INT4 = PgType("int4")
INT8 = PgType("int8")
FLOAT8 = PgType("float8")
TEXT = PgType("text")
DATE = PgType("date")
TIMESTAMP = PgType("timestamp")
TIMESTAMPTZ = PgType("timestamptz")


def numeric(precision: int, scale: int) -> PgType:
    """A numeric with limits."""
    return PgType("numeric", precision, scale)


def array_of(item: PgType) -> PgType:
    """The type of an array with such elements, which are no arrays themselves."""
    return PgType("array", item.precision, item.scale, item.name, item.fields)


def from_typmod(base: str, typmod: int, element: str | None, collation: str = "") -> PgType:
    """The type of a column, as ``<source>.__schemas`` describes it. Texts of which different ones
    are equal, under their ``collation``, are no ``text``: nothing here compares as they do.

    A numeric's typmod is ``((precision << 16) | (scale & 0x7ff)) + 4``, the scale signed.
    """
    if collation and element:
        element = f"{element}{_COLLATE}{collation}"
    elif collation:
        base = f"{base}{_COLLATE}{collation}"
    if "numeric" not in (base, element) or typmod < 4:
        return PgType(base, element=element or "")
    precision, scale = typmod - 4 >> 16 & 0xFFFF, ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400
    return PgType(base, precision, scale, element or "")


def collated(kind: PgType) -> tuple[PgType, str]:
    """The type without the collation under which different texts are equal, and that collation."""
    name, _, of_text = kind.name.partition(_COLLATE)
    element, _, of_element = kind.element.partition(_COLLATE)
    return kind._replace(name=name, element=element), of_text or of_element
