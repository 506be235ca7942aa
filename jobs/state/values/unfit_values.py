"""SQL that finds values which a view's columns cannot hold (``docs/sql.md``). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobs.sinks.postgres.quoting import ident, literal
from jobs.state.values.json_forms import (
    Form,
    elements,
    field_forms,
    form_of,
    in_list,
    is_object,
    record,
    records,
)
from jobs.state.views.view_columns import ViewColumn
from views.types import PgType

_LAST: Final = {"date": "32768-01-01", "timestamp": "32768-01-01", "timestamptz": "32768-01-01 UTC"}
"""The first ones that no view holds."""


def unfit_column(columns: Sequence[ViewColumn], row: str) -> str | None:
    """The name of the first column whose value in ``row`` does not fit, NULL where all do; None
    if all values of these types fit."""
    cases = []
    for column in columns:
        form = form_of(column.kind, column.type, column.typmod)
        if found := _unfit(form, f"{row}.{ident(column.name)}"):
            cases.append(f"when {found} then {literal(column.name)}")
    return f"case {' '.join(cases)} end" if cases else None


def _unfit(form: Form, value: str) -> str | None:
    kind, element = form.kind, form.element
    if "struct" in (kind.name, kind.element):
        return _unfit_inside(form, value)
    if kind.name != "array":
        return _single(kind, value)
    if element is None:
        inside = _single(kind.item, "e.v")
        return inside and in_list(form, value, lambda of, it: _unfit(of, it) or "false")
    if element.base == "array":  # of a domain of arrays
        return f"{value} is not null"
    shape = f"array_ndims({value}) > 1 or array_lower({value}, 1) <> 1"
    inside = _single(kind.item, "e.v")
    if inside is None:
        return shape
    return f"{shape} or exists (select from {elements(element, value)} where {inside})"


def _unfit_inside(form: Form, value: str) -> str | None:
    """Of an object, or an array of them."""
    found = [_unfit(field, f"r.{ident(name)}") for name, field in field_forms(form.kind)]
    inside = " or ".join(one for one in found if one is not None)
    if not inside:
        return None
    if form.kind.name == "struct":
        some = f"case when {is_object(form, value)} then {value} end"
        return f"exists (select from {record(form, some)} where {inside})"
    if form.element is None:
        value = f"case when {form.base}_typeof({value}) = 'array' then {value} end"
    return f"exists (select from {records(form, value)} where {inside})"


def _single(kind: PgType, value: str) -> str | None:
    if kind.exact:
        return f"{value} = 'NaN'"
    if last := _LAST.get(kind.name):
        return f"(not isfinite({value}) or {value} >= {kind.name} '{last}')"
    return None
