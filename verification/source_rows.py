"""The view's own SQL, run by PostgreSQL on a snapshot of an exact LSN."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice
from typing import Any

import orjson

from cdc.errors import SourceError, sentence
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, identifier
from cdc.source.types import load_types
from verification.comparison import Row
from verification.scope import published_sql
from verification.select_view import SelectView
from verification.values.canonical_form import (
    Canonicalizer,
    canonicalizer,
    packed,
    row_canonicalizer,
    unpacked,
)
from verification.values.event_forms import TIMES, has_four_digits, source_form
from verification.values.nested_rows import Form
from verification.values.treated_values import UNTREATED, TreatedValues, Treatments
from views.spark.view import View
from views.types import PgType

_FETCH_ROWS = 5_000
_LOOKUP_KEYS = 2_000
_TEXT_OID = 25
# bool, bytea, int8, int2, int4, oid, float4, float8: all others are read as PostgreSQL's text,
# for Python cannot hold every date, and Spark holds the rest as text too.
_LOADED_OIDS = frozenset((16, 17, 20, 21, 23, 26, 700, 701))
# A key of these types can be given back to PostgreSQL as it is; of ``TIMES`` in common years.
_ASKED_FOR = frozenset(
    ("int2", "int4", "int8", "oid", "float4", "float8", "numeric", "bool", "bytea")
) | frozenset(("uuid", "text", "varchar", "bpchar", "name", "enum"))
_DATA_EXCEPTION = "22"


class SourceSnapshot:
    """The source as it was when everything committed below ``lsn`` was, and nothing else.

    ``conn`` is in a transaction there; ``key_types`` are SQL's names of its key's types, and
    ``key_names`` the key's columns.
    """

    def __init__(
        self,
        conn: Connection,
        lsn: int,
        view: View | SelectView,
        publication: str,
        treatments: Treatments = UNTREATED,
    ) -> None:
        self.lsn = lsn
        self.conn = conn
        self.publication = publication
        self.treated = TreatedValues(treatments)
        self.view = view.name
        self._names = [output.name for output in view.outputs]
        self._canonical = row_canonicalizer([])
        self._as_text: dict[int, Any] = {}
        self.key_names = view.key
        self._key = [self._names.index(name) for name in view.key]
        self._shown = tuple(map(identifier, self._names))
        documents: tuple[int, ...] = ()
        self._described = isinstance(view, SelectView)
        if isinstance(view, SelectView):
            self._shown, documents = view.shown(), view.documents
        self._query = self._selecting(published_sql(conn, view, publication, self.treated))
        self._doing = f"running the SQL of view {view.name} on the source"
        kinds = [output.type for output in view.outputs]
        self._key_kinds = [kinds[i].name for i in self._key]
        self._digits = [i for i in self._key if is_endless(kinds[i])]
        self.key_types = self._prepare(kinds, documents)

    def _selecting(self, sql: str) -> str:
        return f"select {', '.join(self._shown)} from (\n{sql}\n) as v"

    @property
    def query(self) -> str:
        """The view's rows, as SQL of the source."""
        return self._query

    def computing(self, sql: str) -> SourceSnapshot:
        """The same moment for other SQL, which has the view's columns."""
        other = copy(self)
        other._query = self._selecting(sql)
        return other

    def _prepare(self, kinds: Sequence[PgType], documents: Sequence[int]) -> list[str]:
        """Decide how each column is read, ``documents`` as JSON; the SQL names of the key's
        types."""
        types = load_types(self.conn)
        cursor = self._without_rows()
        with translated(self._doing):
            description, result = cursor.description or [], cursor.pgresult
            assert result is not None
            as_text = self.conn.adapters.get_loader(_TEXT_OID, cursor.format)
            assert as_text is not None
            canonical: list[Canonicalizer | None] = []
            for i, (column, kind) in enumerate(zip(description, kinds, strict=True)):
                if column.type_code not in _LOADED_OIDS:
                    self._as_text[column.type_code] = as_text
                form: Form | None = orjson.loads
                if i not in documents:
                    of_type, typmod = types[column.type_code], result.fmod(i)
                    form = source_form(kind, types, of_type, typmod, described=self._described)
                if self.treated and column.type_code == _TEXT_OID:
                    form = _chained(self.treated.read, form)
                canonical.append(_chained(form, canonicalizer(kind)))
            self._canonical = row_canonicalizer(canonical)
            oids = [description[i].type_code for i in self._key]
            names = dict(
                self.conn.execute(
                    "select oid, pg_catalog.format_type(oid, -1) from pg_catalog.pg_type "
                    "where oid = any(%s)",
                    [oids],
                ).fetchall()
            )
        return [names[oid] for oid in oids]

    def _without_rows(self) -> Any:
        """The query without rows: a value that is none stands in the SQL itself."""
        try:
            with translated(self._doing):
                return self.conn.execute(f"{self._query} limit 0")
        except SourceError as error:
            if not sqlstate(error).startswith(_DATA_EXCEPTION):
                raise
            reason = str(error.__cause__).partition("\n")[0]
            raise SourceError(
                f"{self._doing}: PostgreSQL rejects a literal in it: {reason}",
                "correct the SQL of the view, then `headwater view rebuild`",
            ) from None

    def rows(self) -> Iterator[Row]:
        """Every row of the view, as the source has it."""
        yield from map(self._row, self._each(self._query))

    def _each(self, query: str) -> Iterator[Any]:
        named = self.conn.cursor(name="headwater_verify")
        with self._computing(), self._reading(named) as cursor:
            cursor.itersize = _FETCH_ROWS
            cursor.execute(query.encode())
            yield from cursor

    def rows_of(self, keys: Sequence[bytes]) -> Iterator[Row]:
        """The rows of these packed keys; keys without a row are left out.

        A key that has no way back to PostgreSQL's own value is looked for among all rows.
        """
        direct = [key for key in keys if self.can_be_asked_for(key)]
        yield from self._asked_for(direct)
        if others := set(keys) - set(direct):
            yield from (row for row in self.rows() if row.key in others)

    def keys(self, query: str) -> set[bytes]:
        """The packed keys that a query gives, its columns being the key's under their names."""
        key = {self._names[i] for i in self._key}
        shown = ", ".join(identifier(name) if name in key else "null" for name in self._names)
        with (
            translated(self._doing),
            self.conn.transaction(),
            self._reading(self.conn.cursor()) as cursor,
        ):
            found = cursor.execute(f"select {shown} from (\n{query}\n) as k".encode()).fetchall()
        return {self._row(values).key for values in found}

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Faults of the source's own values say where to find the rows that have them."""
        try:
            with translated(self._doing):
                yield
        except SourceError as error:
            if not sqlstate(error).startswith(_DATA_EXCEPTION):
                raise
            letters = f"`headwater dead-letters list {self.view}`"
            way = f"{letters} may name the keys of such rows: correct these in the source"
            hint = f"{error.hint} {sentence(way)}".strip()
            raise SourceError(error.message, hint) from error.__cause__

    def key_texts(self, keys: Collection[bytes]) -> dict[bytes, tuple[str, ...]]:
        """What PostgreSQL reads these packed keys from; keys without a way back to its own values
        are looked for among all rows, and left out if they are not there."""
        direct = [key for key in keys if self.can_be_asked_for(key)]
        found = dict(zip(direct, zip(*sql_texts(direct), strict=True), strict=True))
        others = set(keys) - found.keys()
        if others:
            texts = ", ".join(f"{identifier(self._names[i])}::text" for i in self._key)
            count, query = len(self._names), f"select q.*, {texts} from ({self._query}) q"
            for values in self._each(query):
                if (key := self._row(values[:count]).key) in others:
                    found[key] = tuple(values[count:])
        return found

    def can_be_asked_for(self, key: bytes) -> bool:
        """Whether a packed key has a way back to PostgreSQL's own values."""
        return all(
            has_four_digits(value) or value.endswith("infinity")
            if kind in TIMES
            else kind in _ASKED_FOR
            for kind, value in zip(self._key_kinds, unpacked(key), strict=True)
        )

    def _asked_for(self, keys: Sequence[bytes]) -> Iterator[Row]:
        names = [identifier(self._names[i]) for i in self._key]
        arrays = [f"%(k{i})s::text[]::{kind}[]" for i, kind in enumerate(self.key_types)]
        # A list goes down to an index through GROUP BY and windows, a subquery does not.
        each = " and ".join(f"{n} = any({of})" for n, of in zip(names, arrays, strict=True))
        exact = f"({', '.join(names)}) in ({key_rows(arrays)})" if len(names) > 1 else "true"
        query = f"{self._query.replace('%', '%%')} where {each} and {exact}"
        left = iter(keys)
        while part := list(islice(left, _LOOKUP_KEYS)):
            # PostgreSQL may find more: 'ab' is 'ab ' to char(n), and 'A' is 'a' to some collations.
            wanted = set(part)
            yield from (row for row in self._found(query, part) if row.key in wanted)

    def _found(self, query: str, keys: Sequence[bytes]) -> Iterator[Row]:
        """What a query of keys gives; of a store's keys that PostgreSQL cannot read, all rows."""
        try:
            with (
                translated(self._doing),
                self.conn.transaction(),
                self._reading(self.conn.cursor()) as cursor,
            ):
                texts = {f"k{i}": column for i, column in enumerate(sql_texts(keys))}
                found = cursor.execute(query.encode(), texts).fetchall()
        except SourceError as error:
            if not sqlstate(error).startswith(_DATA_EXCEPTION):
                raise
            return self.rows()
        return map(self._row, found)

    def _reading(self, cursor: Any) -> Any:
        """Values come as ``_prepare`` decided; for this cursor alone, not for the catalog's."""
        for oid, as_text in self._as_text.items():
            cursor.adapters.register_loader(oid, as_text)
        return cursor

    def _row(self, values: Sequence[Any]) -> Row:
        row = self._canonical(values)
        digits = tuple([str(values[i]) for i in self._digits]) if self._digits else ()
        return Row(packed(tuple([row[i] for i in self._key])), row, digits)


def is_endless(kind: PgType) -> bool:
    """Whether it is a numeric without limits, which a view holds as its text."""
    return kind.name == "numeric" and not kind.exact


def _chained(decode: Form | None, canonical: Canonicalizer | None) -> Canonicalizer | None:
    if decode is None or canonical is None:
        return decode or canonical
    return lambda value: canonical(decode(value))


def key_rows(arrays: Sequence[str]) -> str:
    """The SELECT of keys, given as an array of SQL for each column."""
    columns = ", ".join(f"pg_catalog.unnest({array})" for array in arrays)
    return f"select * from rows from ({columns}) as k"


def sql_texts(keys: Sequence[bytes]) -> list[list[str]]:
    """The columns of packed keys, as text that PostgreSQL reads."""
    columns = zip(*(unpacked(key) for key in keys), strict=True)
    return [["\\x" + v.hex() if isinstance(v, bytes) else str(v) for v in c] for c in columns]
