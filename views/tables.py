"""Table versions as the log describes them: what a view's names and types are resolved against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdc.errors import LogError
from views.types import PgType, from_typmod


class TableColumn(NamedTuple):
    """A captured column. ``nullable`` unless the table says NOT NULL."""

    name: str
    type: PgType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One relation version, named by the ``schema_id`` its events carry."""

    schema_id: str
    schema: str
    table: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    def column(self, name: str) -> TableColumn | None:
        """The column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def describe(self) -> str:
        """``id int4, total numeric(10,2)``, for messages."""
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)


def other_names(was: TableVersion, now: TableVersion) -> dict[str, str]:
    """What columns may be called now that are not there any more: at the place of each is a column
    of its type that was not there before. So RENAME COLUMN leaves it, and columns added behind."""
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
                from_typmod(column["base"], column["typmod"], column["element"]),
                column.get("nullable", True),
            )
            for column in record["columns"]
        )
        return TableVersion(
            record["schema_id"], record["schema"], record["table"], columns, tuple(record["key"])
        )
    except (KeyError, TypeError) as error:
        raise LogError(
            f"a record of the schemas topic lacks {error}",
            "publish it again with headwater capture",
        ) from None
