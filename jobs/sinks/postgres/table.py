"""The table of a generation in PostgreSQL, and the view that people read: the SQL. Pure.

A deleted row stays for a day with its key, its position and ``__deleted_at``, so that a late older
change does not bring it back; the view leaves it out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import StructField, StructType

from cdc.errors import ViewError
from cdc.lsn import Position
from jobs.sinks.contract import COMMIT_LSN, DELETED, ORDINAL, UNCHANGED
from jobs.sinks.postgres.column_types import read_column, sql_type
from jobs.sinks.postgres.quoting import ident, literal
from jobs.sinks.schema_evolution import columns_from_json, columns_json

DELETED_AT: Final = "__deleted_at"
NUMBER: Final = "__number"
"""Counts the rows of a batch as they are copied."""
TOMBSTONES: Final = "24 hours"
_NAME_BYTES: Final = 63
_LOOSE: Final = ("numeric", "real", "double precision", "jsonb")
"""Types of which different texts are equal: 1.0 and 1.00, 0 and -0."""


def table_name(view: str, generation: int) -> str:
    """The table of a generation. Raises ``ViewError`` for what PostgreSQL would cut off."""
    name = f"{view}@{generation}"
    if len(name) > _NAME_BYTES:
        raise ViewError(
            f"view {view}: its name has {len(name)} bytes, too many for PostgreSQL",
            "give it a shorter name",
        )
    return name


@dataclass(frozen=True, slots=True)
class ViewTable:
    """A generation's table in ``schema``; ``columns`` are those that are written."""

    schema: str
    name: str
    columns: StructType
    key: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"{ident(self.schema)}.{ident(self.name)}"

    def create(self, indexed: bool = True) -> list[str]:
        """Make it; without its indexes it is quicker to fill."""
        fields = [f"{ident(f.name)} {sql_type(f, f.name in self.key)}" for f in self.columns]
        fields += [f"{ident(name)} bigint not null default 0" for name in (COMMIT_LSN, ORDINAL)]
        fields.append(f"{ident(DELETED_AT)} timestamptz")
        made = f"create table {self.full_name} ({', '.join(fields)}) with (fillfactor = 90)"
        return [made, *(self.index() if indexed else [])]

    def index(self) -> list[str]:
        return [
            f"alter table {self.full_name} add primary key ({_names(self.key)})",
            f"create index on {self.full_name} ({ident(DELETED_AT)})"
            f" where {ident(DELETED_AT)} is not null",
        ]

    def add(self, added: Iterable[StructField]) -> list[str]:
        """Columns that it lacks."""
        parts = [f"add column {ident(f.name)} {sql_type(f, False)}" for f in added]
        return [f"alter table {self.full_name} {', '.join(parts)}"] if parts else []

    def widen(self, wider: Iterable[StructField]) -> list[str]:
        """Columns that become what they are in ``columns``."""
        parts = [
            f"alter column {ident(f.name)} type {sql_type(f, f.name in self.key)}" for f in wider
        ]
        return [f"alter table {self.full_name} {', '.join(parts)}"] if parts else []

    def without_doubles(self) -> str:
        """Of rows that were written twice by a task that was run again, leave one."""
        same = " and ".join(f"a.{ident(name)} = b.{ident(name)}" for name in self.key)
        return (
            f"delete from {self.full_name} a using {self.full_name} b"
            f" where a.ctid < b.ctid and {same}"
        )

    def load(self) -> str:
        """COPY of whole rows into a new table."""
        return f"copy {self.full_name} ({self._written()}) from stdin"

    @property
    def _staged(self) -> str:
        """A session's table for batches; other columns, another one."""
        said = json.dumps([self.full_name, self.key, columns_json(self.columns)])
        return ident("headwater_" + hashlib.sha256(said.encode()).hexdigest()[:24])

    def stage(self) -> str:
        """Make the session's table. It is empty whenever a transaction begins."""
        fields = [f"{ident(f.name)} {sql_type(f, f.name in self.key)}" for f in self.columns]
        fields += [f"{ident(name)} bigint" for name in (COMMIT_LSN, ORDINAL)]
        fields += [f"{ident(DELETED)} boolean", f"{ident(UNCHANGED)} text[]"]
        fields.append(f"{NUMBER} bigint generated always as identity")
        return (
            f"create temp table if not exists {self._staged} ({', '.join(fields)})"
            " on commit delete rows"
        )

    def copy(self) -> str:
        """COPY of a batch into the session's table."""
        return (
            f"copy pg_temp.{self._staged} ({self._written()},"
            f" {ident(DELETED)}, {ident(UNCHANGED)}) from stdin"
        )

    def unstage(self) -> str:
        return f"delete from pg_temp.{self._staged}"

    def unknown(self) -> str:
        """Which newer rows keep a value that no live row has; 0 was copied first."""
        return (
            f"select b.{NUMBER} - (select min({NUMBER}) from pg_temp.{self._staged})"
            f" from pg_temp.{self._staged} b left join {self.full_name} t"
            f" on {self._same('t', 'b')}"
            f" where b.{ident(UNCHANGED)} is not null and not b.{ident(DELETED)}"
            f" and (t.{ident(COMMIT_LSN)} is null"
            f" or t.{ident(DELETED_AT)} is not null and {_position('t')} < {_position('b')})"
        )

    def update(self) -> str:
        """Rows that keep values, over older ones."""
        parts = [
            f"{ident(name)} = case when {literal(name)} = any (b.{ident(UNCHANGED)})"
            f" then t.{ident(name)} else b.{ident(name)} end"
            for name in self._others
        ]
        parts += [f"{ident(name)} = b.{ident(name)}" for name in (COMMIT_LSN, ORDINAL)]
        return (
            f"update {self.full_name} t set {', '.join(parts)} from pg_temp.{self._staged} b"
            f" where {self._same('t', 'b')} and b.{ident(UNCHANGED)} is not null"
            f" and {_position('t')} < {_position('b')}"
        )

    def merge(self) -> str:
        """All other rows, over older ones."""
        names = (*self._others, COMMIT_LSN, ORDINAL, DELETED_AT)
        return (
            f"insert into {self.full_name} as t ({self._written()}, {ident(DELETED_AT)})"
            f" select {self._once()}{self._written()}, case when {ident(DELETED)} then now() end"
            f" from pg_temp.{self._staged} where {ident(UNCHANGED)} is null{self._newest()}"
            f" on conflict ({_names(self.key)}) do update set"
            f" {', '.join(f'{ident(n)} = excluded.{ident(n)}' for n in names)}"
            f" where {_position('t')} < {_position('excluded')}"
        )

    def truncate(self, before: Position) -> str:
        """Live rows below a position become deleted ones of that position."""
        lsn, ordinal = before
        parts = [f"{ident(name)} = null" for name in self._others]
        parts += [f"{ident(COMMIT_LSN)} = {lsn}", f"{ident(ORDINAL)} = {ordinal}"]
        parts.append(f"{ident(DELETED_AT)} = now()")
        return (
            f"update {self.full_name} t set {', '.join(parts)}"
            f" where {ident(DELETED_AT)} is null and {_position('t')} < ({lsn}, {ordinal})"
        )

    def purge(self) -> str:
        """Deleted rows that no change can be as late for."""
        return (
            f"delete from {self.full_name}"
            f" where {ident(DELETED_AT)} < now() - interval '{TOMBSTONES}'"
        )

    def scan(self, of_keys: bool = False) -> str:
        """Live rows: the columns, then the position; ``of_keys``: of those whose keys are given,
        an array for each column."""
        columns = ", ".join(read_column(field) for field in self.columns)
        query = (
            f"select {columns}, {ident(COMMIT_LSN)}, {ident(ORDINAL)} from {self.full_name}"
            f" where {ident(DELETED_AT)} is null"
        )
        return query.replace("%", "%%") + self._of_keys() if of_keys else query

    def _of_keys(self) -> str:
        arrays = ", ".join(f"%s::{sql_type(self.columns[name], True)}[]" for name in self.key)
        names = _names(self.key).replace("%", "%%")
        return f" and ({names}) in (select * from unnest({arrays}))"

    @property
    def _others(self) -> list[str]:
        return [name for name in self.columns.names if name not in self.key]

    def _written(self) -> str:
        return _names((*self.columns.names, COMMIT_LSN, ORDINAL))

    def _same(self, left: str, right: str) -> str:
        return " and ".join(f"{left}.{ident(n)} = {right}.{ident(n)}" for n in self.key)

    def _is_loose(self) -> bool:
        return any(sql_type(self.columns[name], True) in _LOOSE for name in self.key)

    def _once(self) -> str:
        """A row that becomes one whose key is equal, but not the same text, is there twice."""
        return f"distinct on ({_names(self.key)}) " if self._is_loose() else ""

    def _newest(self) -> str:
        if not self._is_loose():
            return ""
        return f" order by {_names(self.key)}, {ident(COMMIT_LSN)} desc, {ident(ORDINAL)} desc"


def shown(schema: str, view: str, table: str, columns: StructType, replacing: bool) -> list[str]:
    """Let people read ``table`` as ``view``. Fails where columns went: then it is made anew."""
    create = "create or replace view" if replacing else "create view"
    return [
        f"{create} {ident(schema)}.{ident(view)} as select {_names(columns.names)}"
        f" from {ident(schema)}.{ident(table)} where {ident(DELETED_AT)} is null"
    ]


def described(kind: str, schema: str, name: str, document: dict[str, object]) -> str:
    """Keep ``document`` with a table or view, as its comment."""
    text = literal(json.dumps(document))
    return f"comment on {kind} {ident(schema)}.{ident(name)} is {text}"


def document_of(view: str, columns: StructType, key: Sequence[str]) -> dict[str, object]:
    """What a table remembers of its view; it marks the table as ours."""
    return {"headwater_view": view, "key": list(key), "columns": json.loads(columns_json(columns))}


def columns_of(document: dict[str, object]) -> StructType:
    return columns_from_json(json.dumps(document["columns"]))


def _names(names: Iterable[str]) -> str:
    return ", ".join(ident(name) for name in names)


def _position(side: str) -> str:
    return f"({side}.{ident(COMMIT_LSN)}, {side}.{ident(ORDINAL)})"
