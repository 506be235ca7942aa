"""SQL that makes the values of a view's rows as a table in PostgreSQL reads them. Pure.

Types that such a table has (``jobs.sinks.postgres.table``) keep their own text; what the view holds
as text is written as events have it; objects are the JSON that documents have.
"""

from __future__ import annotations

from jobs.sinks.postgres.quoting import ident
from jobs.spark.column_types import TEXT_HERE
from jobs.state.values.event_texts import event_text
from jobs.state.values.json_forms import Form, element_form, elements, form_of, in_list, json_form
from jobs.state.views.view_columns import ViewColumn
from views.types import PgType

_ZEROS = {"float4": "0::float4", "float8": "0"}
"""What a float is added to, so that -0 is 0."""


def line_value(column: ViewColumn, relation: str) -> str:
    """The text of a column's value in ``relation``."""
    form = form_of(column.kind, column.type, column.typmod)
    value = f"{relation}.{ident(column.name)}"
    return _array(form, value) if form.kind.name == "array" else _text(form, value)


def _text(form: Form, value: str) -> str:
    kind = form.kind
    if kind.name == "struct":
        return json_form(form, value)
    if kind.spark == "string" and kind.name not in TEXT_HERE:
        return event_text(form.base, form.typmod, value)
    return f"({_own(kind, value)})::text"


def _own(kind: PgType, value: str) -> str:
    """The value in the type of the store's column."""
    if kind.exact:
        return f"{value}::numeric({kind.precision},{kind.scale})"
    zero = _ZEROS.get(kind.name)
    return f"{value} + {zero}" if zero else value


def _array(form: Form, value: str) -> str:
    element, item = form.element, form.kind.item
    if item.name == "struct" or (element is not None and element.base == "array"):
        return json_form(form, value)
    if element is None:
        return in_list(form, value, _array)
    if item.exact:
        return f"({value}::numeric({item.precision},{item.scale})[])::text"
    if item.name in _ZEROS or (item.spark == "string" and item.name not in _PRINTED_ALIKE):
        each = _text(element_form(form), "e.v")
        made = f"array(select {each} from {elements(element, value)} order by e.o)::text"
        return f"case when {value} is not null then {made} end"
    return f"{value}::text"


_PRINTED_ALIKE = (*TEXT_HERE, "text", "varchar", "name", "enum")
"""Elements whose text in an array is that which the store has."""
