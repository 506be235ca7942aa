"""SQL that makes documents of a view's rows, as ``jobs.sinks.documents`` has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.sinks.postgres.quoting import ident
from jobs.sinks.redis.layout import PLACEHOLDER, Shape, escapes
from jobs.state.values.json_forms import (
    concatenated,
    form_of,
    json_form,
    label,
    plain_text,
    text_literal,
)
from jobs.state.values.unfit_values import unfit_column
from jobs.state.views.view_columns import ViewColumn

# Of control characters PostgreSQL writes hexadecimal digits in small letters, Spark in large ones.
_LETTERED: Final = r"E'[\x0b\x0e\x0f\x1a-\x1f]'"


@dataclass(frozen=True, slots=True)
class DocumentSql:
    """The expressions of one view's documents. Arguments are relations that they read: ``row`` has
    the view's columns, ``key`` those of the key at least."""

    columns: tuple[ViewColumn, ...]
    key: tuple[str, ...]
    shape: Shape

    def id(self, key: str) -> str:
        """The key as text (``documents.key_text``); NULL where a part of it is."""
        if len(self.key) == 1:
            return self._text(key, self.key[0])
        elements = " || ',' || ".join(self._element(key, name) for name in self.key)
        return f"('[' || {elements} || ']')"

    def name(self, key: str) -> str | None:
        """What Redis calls the row behind the generation's prefix; None where that is its id."""
        codes = escapes(self.shape)
        if not self.shape.template:
            return _encoded(self.id(key), codes) if codes else None
        pieces = PLACEHOLDER.split(self.shape.template)
        parts = [
            _encoded(self._text(key, piece), codes) if number % 2 else text_literal(piece)
            for number, piece in enumerate(pieces)
        ]
        return f"({' || '.join(parts)})"

    def body(self, row: str) -> str:
        """The row as a JSON object."""
        parts: list[str] = []
        for column in self.columns:
            parts += [label(column.name, not parts), f"coalesce({self._json(row, column)}, 'null')"]
        return concatenated([*parts, "'}'"])

    def unfit(self, row: str) -> str | None:
        """The column whose value a document cannot hold, NULL where there is none; None if there
        can be none."""
        return unfit_column(self.columns, row)

    def _text(self, key: str, name: str) -> str:
        column = self._column(name)
        return plain_text(form_of(column.kind, column.type, column.typmod), self._of(key, column))

    def _element(self, key: str, name: str) -> str:
        column = self._column(name)
        written = self._json(key, column)
        if column.kind.spark != "string":
            return written
        text = self._text(key, name)
        return f"case when {text} ~ {_LETTERED} then {_large(text)} else {written} end"

    def _json(self, relation: str, column: ViewColumn) -> str:
        form = form_of(column.kind, column.type, column.typmod)
        return json_form(form, self._of(relation, column))

    def _column(self, name: str) -> ViewColumn:
        return next(column for column in self.columns if column.name == name)

    def _of(self, relation: str, column: ViewColumn) -> str:
        return f"{relation}.{ident(column.name)}"


def _large(value: str) -> str:
    """A JSON string, its control characters in large letters."""
    one = "substr(to_json(c.v)::text, 2, length(to_json(c.v)::text) - 2)"
    code = r"E'\\u00' || lpad(upper(to_hex(ascii(c.v))), 2, '0')"
    each = f"case when c.v ~ {_LETTERED} then {code} else {one} end"
    rows = f"string_to_table({value}, null) with ordinality c(v, o)"
    return f"(select '\"' || string_agg({each}, '' order by c.o) || '\"' from {rows})"


def _encoded(text: str, codes: Sequence[tuple[str, str]]) -> str:
    for one, code in codes:
        text = f"replace({text}, {text_literal(one)}, {text_literal(code)})"
    return text
