"""SQL that finds values which a view's columns cannot hold (``docs/sql.md``). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobs.sinks.table import ident, literal
from jobs.state.json_forms import elements
from jobs.state.view_columns import ViewColumn
from views.types import PgType

_LAST: Final = {"date": "32768-01-01", "timestamp": "32768-01-01", "timestamptz": "32768-01-01 UTC"}
"""The first ones that no view holds."""


def unfit_column(columns: Sequence[ViewColumn], row: str) -> str | None:
    """The name of the first column whose value in ``row`` does not fit, NULL where all do; None
    if all values of these types fit."""
    cases = []
    for column in columns:
        if found := _unfit(column, f"{row}.{ident(column.name)}"):
            cases.append(f"when {found} then {literal(column.name)}")
    return f"case {' '.join(cases)} end" if cases else None


def _unfit(column: ViewColumn, value: str) -> str | None:
    kind, element = column.kind, column.type.element
    if kind.name != "array" or element is None:
        return _single(kind, value)
    if element.base == "array":  # of a domain of arrays
        return f"{value} is not null"
    shape = f"array_ndims({value}) > 1 or array_lower({value}, 1) <> 1"
    inside = _single(kind.item, "e.v")
    if inside is None:
        return shape
    return f"{shape} or exists (select from {elements(element, value)} where {inside})"


def _single(kind: PgType, value: str) -> str | None:
    if kind.exact:
        return f"{value} = 'NaN'"
    if last := _LAST.get(kind.name):
        return f"(not isfinite({value}) or {value} >= {kind.name} '{last}')"
    return None
