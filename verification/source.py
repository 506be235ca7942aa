"""The view's own SQL, run by PostgreSQL on a snapshot of an exact LSN."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import orjson

from cdc.errors import LogError
from cdc.postgres import Connection, connect, identifier, literal, translated
from cdc.relation import TypeInfo
from cdc.slot import create_slot
from cdc.values import encoder
from verification.canonical import Canonical, canonical_row, canonicalizer, packed, unpacked
from verification.compare import Row
from views.resolve import ResolvedView
from views.types import PgType

_FETCH_ROWS = 5_000
_LOOKUP_KEYS = 2_000
_TEXT_OID = 25
# bool, bytea, int8, int2, int4, oid, float4, float8: all others are read as PostgreSQL's text,
# for Python cannot hold every date, and Spark holds the rest as text too.
_LOADED_OIDS = frozenset((16, 17, 20, 21, 23, 26, 700, 701))
# Their event form is their text.
_PLAIN = frozenset(
    ("text", "varchar", "bpchar", "name", "json", "jsonb", "uuid", "enum", "numeric")
)
# A statement may end in a semicolon and comments; a subquery may not.
_END = re.compile(r"\s*;?\s*(--[^\n]*\s*)*\Z")


class SourceSnapshot:
    """The source as it was when everything committed below ``lsn`` was, and nothing else."""

    def __init__(self, conn: Connection, lsn: int, view: ResolvedView) -> None:
        self.lsn = lsn
        self._conn = conn
        self._names = [output.name for output in view.outputs]
        self._decoders = [_event_form(output.type) for output in view.outputs]
        self._canonical = [canonicalizer(output.type) for output in view.outputs]
        self._key = [self._names.index(name) for name in view.key]
        columns = ", ".join(identifier(name) for name in self._names)
        self._query = f"select {columns} from (\n{_END.sub('', view.definition.sql)}\n) as v"
        self._doing = f"running the SQL of view {view.name} on the source"
        self._key_types = self._prepare()

    def _prepare(self) -> list[str]:
        """Read every other type as text; the SQL names of the key's types."""
        with translated(self._doing):
            cursor = self._conn.execute(f"{self._query} limit 0")
            description = cursor.description or []
            as_text = self._conn.adapters.get_loader(_TEXT_OID, cursor.format)
            assert as_text is not None
            for column in description:
                if column.type_code not in _LOADED_OIDS:
                    self._conn.adapters.register_loader(column.type_code, as_text)
            oids = [description[i].type_code for i in self._key]
            names = dict(
                self._conn.execute(
                    "select oid, pg_catalog.format_type(oid, null) from pg_catalog.pg_type "
                    "where oid = any(%s)",
                    [oids],
                ).fetchall()
            )
        return [names[oid] for oid in oids]

    def rows(self) -> Iterator[Row]:
        """Every row of the view, as the source has it."""
        with translated(self._doing), self._conn.cursor(name="headwater_verify") as cursor:
            cursor.itersize = _FETCH_ROWS
            cursor.execute(self._query.encode())
            for values in cursor:
                yield self._row(values)

    def rows_of(self, keys: Sequence[bytes]) -> Iterator[Row]:
        """The rows of these packed keys; keys without a row are left out."""
        names = ", ".join(identifier(self._names[i]) for i in self._key)
        arrays = ", ".join(f"%s::text[]::{name}[]" for name in self._key_types)
        query = (
            f"{self._query.replace('%', '%%')} "
            f"where ({names}) in (select * from pg_catalog.unnest({arrays}))"
        )
        left = iter(keys)
        while part := list(islice(left, _LOOKUP_KEYS)):
            columns = zip(*(unpacked(key) for key in part), strict=True)
            texts = [[_sql_text(value) for value in column] for column in columns]
            with translated(self._doing):
                found = self._conn.execute(query.encode(), texts).fetchall()
            yield from map(self._row, found)

    def _row(self, values: Sequence[Any]) -> Row:
        decoded = [
            value if decode is None or value is None else decode(value)
            for value, decode in zip(values, self._decoders, strict=True)
        ]
        row = canonical_row(decoded, self._canonical)
        return Row(packed(tuple(row[i] for i in self._key)), row)


@contextmanager
def source_at_new_lsn(
    dsn: str, view: ResolvedView, timeout_s: float, on_wait: Callable[[str], None]
) -> Iterator[SourceSnapshot]:
    """The source at an LSN of this moment; a transaction is open there until the block ends.

    Needs a free replication slot, for as long as it takes to import the snapshot. Raises
    ``SourceError`` when the slot cannot be created or the view's SQL fails.
    """
    name = f"headwater_verify_{secrets.token_hex(6)}"
    with connect(dsn, application_name="headwater verify") as conn:
        with (
            create_slot(dsn, name, temporary=True, timeout_s=timeout_s, on_wait=on_wait) as slot,
            translated("importing a snapshot"),
        ):
            conn.execute("begin isolation level repeatable read read only")
            conn.execute(f"set transaction snapshot {literal(slot.snapshot_name)}".encode())
            # As views are resolved: a table without a schema is in public.
            conn.execute("set local search_path to public")
        yield SourceSnapshot(conn, slot.consistent_point, view)


def _event_form(kind: PgType) -> Callable[[str], Any] | None:
    """From PostgreSQL's text to what an event carries, for types that Spark holds in that form."""
    if kind.name != "array" and (kind.spark != "string" or kind.name in _PLAIN):
        return None
    encode = encoder(_type_info(kind), -1)
    if encode is None:
        return None

    def decode(text: str) -> Any:
        try:
            return orjson.loads(encode(text.encode()))
        except ValueError:
            raise LogError(f"a value of type {kind} has no event form") from None

    return decode


def _type_info(kind: PgType) -> TypeInfo:
    element = _type_info(PgType(kind.element)) if kind.name == "array" else None
    return TypeInfo(0, "pg_catalog", kind.name, "base", kind.name, element=element)


def _sql_text(value: Canonical) -> str:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return str(value)
