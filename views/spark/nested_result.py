"""What a view's JSON columns hold, where its SQL makes them: objects with named fields, and lists.

PostgreSQL describes such a column as ``json`` and no more. Its SQL says which expression each field
is made of; a SELECT of that expression alone tells its type when PostgreSQL describes it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from views.maintain.tree.parser import text
from views.maintain.tree.statement import parse

_OBJECT: Final = ("json_build_object", "jsonb_build_object")
_LIST: Final = ("json_agg", "jsonb_agg", "array_agg")
_JSON: Final = ("json", "jsonb")
_EMPTY: Final = exp.Literal | exp.Null
_MARK: Final = "nested"
_KEPT: Final = frozenset({"coalesce", "nullif", "greatest", "least", "lower", "upper"})
"""Functions that are none of many rows; of others that is not asked: their columns become NULL."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value; PostgreSQL describes its type as that of the only column of one of these SELECTs,
    the first that it takes."""

    selects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """An object."""

    fields: tuple[tuple[str, Nested], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list. ``is_json`` unless it is an array of PostgreSQL's."""

    item: Nested
    is_json: bool = True


Nested: TypeAlias = Value | Fields | Items


@dataclass(frozen=True, slots=True)
class _Step:
    """A SELECT, the number of the item that matters of it, and the column that it is, if it is one
    of a subquery: that is the next step. ``aggregated``: it stands in an aggregate there."""

    select: exp.Select
    item: int
    column: exp.Column | None = None
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an expression stands: the SELECTs around it, outermost first, and whether it goes into
    an aggregate of the last one."""

    steps: tuple[_Step, ...]
    aggregated: bool = False

    @property
    def selects(self) -> tuple[exp.Select, ...]:
        return tuple(step.select for step in self.steps)


def nested_columns(view: str, sql: str) -> dict[str, Nested]:
    """The columns of a view that its SQL makes objects or lists, by name.

    Raises ``ViewError`` for SQL that is not understood.
    """
    root = parse(view, sql)
    for number, node in enumerate(root.find_all(exp.Select)):
        node.meta[_MARK] = number
    first = root
    while isinstance(first, exp.SetOperation):
        first = first.left
    if not isinstance(first, exp.Select):
        return {}
    found: dict[str, Nested] = {}
    for number, item in enumerate(first.expressions):
        made = _nested(item, root, _Place((_Step(first, number),)))
        if made is not None and not isinstance(made, Value):
            found[item.alias_or_name] = made
    return found


def _nested(node: exp.Expr, root: exp.Expr, place: _Place) -> Nested | None:
    """What JSON an expression makes; None where that cannot be seen."""
    inner = _bare(node)
    if isinstance(inner, exp.Filter):
        inner = inner.this
    if isinstance(inner, exp.Subquery | exp.Column):
        return _within(inner, root, place)
    name = inner.name.lower() if isinstance(inner, exp.Anonymous) else ""
    if name in _OBJECT:
        return _object(inner.expressions, root, place)
    if name not in _LIST or place.aggregated or len(inner.expressions) != 1:
        return None
    body = inner.expressions[0]
    while isinstance(body, exp.Order):
        body = body.this
    if isinstance(body, exp.Distinct | exp.Star):
        return None
    inside = _Place(place.steps, aggregated=True)
    item = _nested(body, root, inside)
    if isinstance(item, Items) or (item is None and name == "array_agg"):
        return None
    return Items(item or _value(body, root, inside), name != "array_agg")


def _bare(node: exp.Expr) -> exp.Expr:
    """Without what leaves JSON as it is: a name, parentheses, a cast to JSON, coalesce() with a
    constant behind."""
    while True:
        if isinstance(node, exp.Alias | exp.Paren) or (
            isinstance(node, exp.Cast) and node.to.sql("postgres").lower() in ("json", "jsonb")
        ):
            node = node.this
        elif _is_coalesce(node):
            node = node.expressions[0]
        else:
            return node


def _is_coalesce(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "coalesce":
        return False
    others = (_bare(other) for other in node.expressions[1:])
    return all(isinstance(other, _EMPTY) for other in others)


def _object(parts: list[exp.Expr], root: exp.Expr, place: _Place) -> Fields | None:
    names = [_bare(name) for name in parts[::2]]
    if not parts or len(parts) % 2:
        return None
    if not all(isinstance(name, exp.Literal) and name.is_string for name in names):
        return None
    if len({name.this for name in names}) < len(names):
        return None
    fields = []
    for name, value in zip(names, parts[1::2], strict=True):
        made = _nested(value, root, place)
        fields.append((str(name.this), made or _value(value, root, place)))
    return Fields(tuple(fields))


def _within(node: exp.Expr, root: exp.Expr, place: _Place) -> Nested | None:
    """What a subquery, or the subquery that a column is of, makes."""
    column = node if isinstance(node, exp.Column) else None
    query = node.this if column is None else _source(column, place.selects)
    if not isinstance(query, exp.Select):
        return None
    numbers = [
        number
        for number, item in enumerate(query.expressions)
        if column is None or item.alias_or_name == column.name
    ]
    if len(numbers) != 1:
        return None
    last = place.steps[-1]
    outer = _Step(last.select, last.item, column, place.aggregated)
    inner = _Place((*place.steps[:-1], outer, _Step(query, numbers[0])))
    return _nested(query.expressions[numbers[0]], root, inner)


def _source(column: exp.Expr, selects: tuple[exp.Select, ...]) -> exp.Expr | None:
    """The query that a FROM of the innermost SELECT names as the column's table does."""
    from_ = selects[-1].args.get("from_")
    joined = [join.this for join in selects[-1].args.get("joins") or []]
    lateral = selects[-1].args.get("laterals") or []
    relations = [*([from_.this] if from_ else []), *joined, *lateral]
    table = column.args.get("table")
    if table is None and len(relations) > 1:
        return None
    for relation in relations:
        if table is None or relation.alias_or_name == table.name:
            return _query_of(relation, selects)
    return None


def _query_of(relation: exp.Expr, selects: tuple[exp.Select, ...]) -> exp.Expr | None:
    if isinstance(relation, exp.Lateral):
        relation = relation.this
    if isinstance(relation, exp.Subquery):
        query: exp.Expr = relation.this
        return query
    if not isinstance(relation, exp.Table):
        return None
    for select in reversed(selects):
        with_ = select.args.get("with_")
        for cte in with_.expressions if with_ else []:
            if cte.alias == relation.name:
                named: exp.Expr = cte.this
                return named
    return None


def _value(node: exp.Expr, root: exp.Expr, place: _Place) -> Value:
    """The SELECTs that tell the type of an expression: without the groups around an aggregate, so
    that a column keeps its limits; where that is not taken, of an aggregate of it."""
    ways = [_only(node.copy(), root, place, ungrouped=place.aggregated)]
    if place.aggregated:
        listed = exp.Paren(this=exp.Anonymous(this="array_agg", expressions=[node.copy()]))
        first = exp.Bracket(this=listed, expressions=[exp.Literal.number(1)], offset=1)
        ways.append(_only(first, root, place, ungrouped=False))
    return Value(tuple(ways))


def _only(value: exp.Expr, root: exp.Expr, place: _Place, ungrouped: bool) -> str:
    """The whole SQL with ``value`` where the column was made of it. What nobody reads is NULL."""
    whole = root.copy()
    selects = [_found(whole, step.select) for step in place.steps]
    for depth in reversed(range(len(selects))):
        step, select = place.steps[depth], selects[depth]
        name = select.expressions[step.item].alias_or_name
        shown = value
        if select is not selects[-1]:
            shown = step.column.copy() if step.column else _around(selects[depth + 1])
        flat = step.aggregated or (ungrouped and step is place.steps[-1])
        items = [
            _null(item) if depth == 0 or (flat and _is_aggregate(item)) else item
            for item in select.expressions
        ]
        items[step.item] = exp.alias_(shown, name or "none", quoted=True, copy=False)
        select.set("expressions", items)
        unread = ("order", "limit", "offset", "distinct", *(("group", "having") if flat else ()))
        for part in unread:
            select.set(part, None)
    if isinstance(whole, exp.SetOperation):
        selects[0].set("with_", whole.args.get("with_"))
        return text(selects[0])
    return text(whole)


def _around(select: exp.Select) -> exp.Expr:
    assert select.parent is not None, "it is a subquery"
    return select.parent


def _null(item: exp.Expr) -> exp.Expr:
    return exp.alias_(exp.Null(), item.alias_or_name or "none", quoted=True)


def _is_aggregate(item: exp.Expr) -> bool:
    return any(not _KEPT & {call.name.lower()} for call in item.find_all(exp.Anonymous))


def _found(whole: exp.Expr, select: exp.Select) -> exp.Select:
    found: Iterator[exp.Select] = whole.find_all(exp.Select)
    return next(one for one in found if one.meta.get(_MARK) == select.meta[_MARK])
