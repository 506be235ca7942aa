"""Table versions as the log describes them: what a view's names and types are resolved against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cdc.errors import LogError
from views.types import PgType, from_typmod

_FILLED: Final = ("bpchar", "bit")
_ROUNDED: Final = ("time", "timetz", "timestamp", "timestamptz", "interval")
_CALLED: Final = {"bpchar": "char"}
_MICROSECONDS: Final = 6  # digits, which all of these have where none are told
REFUSED_HINT: Final = "run `headwater view rebuild`, which reads the table as it is now"


class TableColumn(NamedTuple):
    """A captured column. ``nullable`` unless the table says NOT NULL; ``attnum`` is what it keeps
    under every name, None where that is not known. ``labels`` are its enum's, empty where they are
    not known: the log does not tell them (``views.enum_labels``). ``typmod`` is PostgreSQL's,
    of an array that of its elements; -1 without one. ``treatment`` is what is done to its values
    before they leave the source: a view may show it, and not compute with it. ``element_typmod`` is
    what the type of an array's elements says itself, a domain's; -1 if it says nothing."""

    name: str
    type: PgType
    nullable: bool = True
    attnum: int | None = None
    labels: tuple[str, ...] = ()
    typmod: int = -1
    treatment: str = ""
    element_typmod: int = -1

    def __str__(self) -> str:
        """Its type, for messages."""
        kind, limit = self.type.element or self.type.name, self.limit
        text = str(self.type)
        return text if limit is None else text.replace(kind, f"{_CALLED.get(kind, kind)}({limit})")

    @property
    def limit(self) -> int | None:
        """The length that values are filled up to, or the digits of a second that they are rounded
        to; None of other types, and where there is none."""
        kind = self.type.element or self.type.name
        if self.typmod < 0 or kind not in (*_FILLED, *_ROUNDED):
            return None
        if kind in _FILLED:
            return self.typmod - 4 if kind == "bpchar" else self.typmod
        digits = self.typmod & 0xFFFF  # of an interval the bits above tell its units
        return digits if digits < _MICROSECONDS else None

    def keeps(self, new: TableColumn) -> bool:
        """Whether values stay as they are under another limit of the same type."""
        if self.limit == new.limit or new.type != self.type:
            return True
        kind = self.type.element or self.type.name
        more = new.limit is None or (self.limit is not None and self.limit < new.limit)
        return kind in _ROUNDED and more


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One relation version, named by the ``schema_id`` its events carry.

    ``oid`` is the table's, 0 where it is not known. ``as_sent`` is the same version under the names
    that its events have, where they are others (``views.spark.generation_names``). ``refused`` says
    why no event of it can be read; "" where they can be.
    """

    schema_id: str
    schema: str
    table: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    oid: int = 0
    as_sent: TableVersion | None = None
    refused: str = ""

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def numbered(self) -> bool:
        """Whether its columns are known by what they keep under every name."""
        return bool(self.oid) and all(column.attnum for column in self.columns)

    def column(self, name: str) -> TableColumn | None:
        """The column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def sent(self, name: str) -> str | None:
        """What the column of that name is called in events of this version; None without one."""
        column = self.column(name)
        if column is None or self.as_sent is None:
            return None if column is None else name
        sent = (one.name for one in self.as_sent.columns if one.attnum == column.attnum)
        return next(sent, None)

    @property
    def replaced(self) -> tuple[str, ...]:
        """Names that were columns' which were dropped, and are other columns' now."""
        if self.as_sent is None:
            return ()
        held = {column.attnum for column in self.columns}
        others = (one.name for one in self.as_sent.columns if one.attnum not in held)
        return tuple(name for name in others if self.column(name) is None)

    def lacking(self, name: str) -> str:
        """Why there is no column of that name, in words."""
        if name in self.replaced:
            return f"{self.name} has another column of that name now"
        return f"{self.name} has no such column"

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns, by the table's own names."""
        return {column.name: str(column) for column in (self.as_sent or self).columns}

    def describe(self) -> str:
        """``id int4, total numeric(10,2)``, for messages: under the table's own names."""
        return ", ".join(f"{name} {type_}" for name, type_ in self.types.items())


def treatment_fault(treatment: str) -> str:
    """Why nothing is computed with a column that is treated."""
    return f"source.columns treats it ({treatment}), and views have what that gives"


def other_names(was: TableVersion, now: TableVersion) -> dict[str, str]:
    """What columns may be called now that are not there any more: at the place of each is a column
    of its type that was not there before. So RENAME COLUMN leaves it, and columns added behind.
    Of numbered columns nothing has to be guessed: these are followed."""
    if was.numbered and now.numbered and was.oid == now.oid:
        return {}
    return {
        one.name: two.name
        for one, two in zip(was.columns, now.columns, strict=False)
        if one.type == two.type and not now.column(one.name) and not was.column(two.name)
    }


def parse_version(record: Mapping[str, Any]) -> TableVersion:
    """A value of ``<source>.__schemas``. Raises ``LogError`` when it is not one."""
    try:
        columns = tuple(
            TableColumn(
                column["name"],
                from_typmod(
                    column["base"],
                    column["typmod"],
                    column["element"],
                    column.get("collation", ""),
                ),
                column.get("nullable", True),
                column.get("attnum"),
                typmod=column["typmod"],
                treatment=column.get("treatment", ""),
                element_typmod=column.get("element_typmod", -1),
            )
            for column in record["columns"]
        )
        return TableVersion(
            record["schema_id"],
            record["schema"],
            record["table"],
            columns,
            tuple(record["key"]),
            record.get("table_oid", 0),
        )
    except (KeyError, TypeError) as error:
        raise LogError(
            f"a record of the schemas topic lacks {error}",
            "run `headwater capture` to publish it again",
        ) from None
