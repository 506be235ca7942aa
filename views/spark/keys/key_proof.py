"""A view's key, proven: no two rows share it, and no row lacks it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from cdc.errors import ViewError
from views.parse.definition import ViewDefinition
from views.parse.expression_parts import aggregates, shape, unwrapped
from views.parse.syntax_errors import place
from views.spark.clauses import Clause, clause, row_scope
from views.spark.expressions.terms import ColumnRef
from views.spark.keys.joins import Join, holding, present, rejects_null
from views.spark.keys.key_closure import settled_by, untold
from views.table_versions import TableVersion

_NESTED = ("struct", "array", "json", "jsonb")


@dataclass(frozen=True, slots=True)
class Body:
    """What makes the rows of a view: everything but what is shown of them.

    ``group`` is None for a view whose rows are those of the join.
    """

    tables: Mapping[str, TableVersion]
    joins: tuple[Join, ...]
    where: tuple[Clause, ...]
    group: tuple[Clause, ...] | None


def proven_key(
    definition: ViewDefinition, items: Mapping[str, exp.Expr], body: Body
) -> tuple[Clause, ...]:
    """The key's expressions over rows of the join. ``items`` are the outputs by name.

    Raises ``ViewError`` when rows may share a key or have NULL in it, with the way out.
    """
    where = f"views.{definition.name}.key"
    keys = []
    for name in definition.key:
        if name not in items:
            known = ", ".join(items)
            raise ViewError(
                f"{where}: {name!r} is not a column of the view", f"choose from {known}"
            )
        keys.append(_key(definition, name, items[name], body))
    _check_unique(definition, keys, body)
    for name, made in zip(definition.key, keys, strict=True):
        _check_there(definition, name, made, body)
    return tuple(keys)


def _key(definition: ViewDefinition, name: str, node: exp.Expr, body: Body) -> Clause:
    where = f"views.{definition.name}.key: {name!r}{place(node)}"
    if next(aggregates(node), None) is not None:
        raise ViewError(
            f"{where} is an aggregate, which changes while the row stays",
            "use the columns of GROUP BY",
        )
    made = clause(node.copy(), row_scope(definition.name, body.tables))
    if made.type.name in _NESTED:
        raise ViewError(
            f"{where} is {made.type}, by which rows cannot be looked up", "use another column"
        )
    return made


def _check_unique(definition: ViewDefinition, keys: Sequence[Clause], body: Body) -> None:
    start = {made.column for made in keys if made.column is not None}
    certain = {column.alias for column in start}  # a key that can be NULL is refused
    settled = settled_by(start, body.joins, body.where, body.tables, certain)
    said = f"views.{definition.name}.key: ({', '.join(definition.key)})"
    if body.group is None:
        if missing := untold(settled, body.tables):
            raise ViewError(*_shared(definition, said, missing, body))
        return
    shapes = {made.shape for made in keys}
    for item in body.group:
        if item.shape not in shapes and not item.reads <= settled:
            text = item.node.sql("postgres")
            raise ViewError(
                f"{said} may name several groups{place(item.node)}: GROUP BY also has {text}",
                f"select {text} and name it in key, or leave it out of GROUP BY",
            )


def _shared(
    definition: ViewDefinition, said: str, missing: Sequence[ColumnRef], body: Body
) -> tuple[str, str]:
    """The message for a key that several rows may have, and the hint."""
    alias = missing[0].alias
    node = next(o.node for o in definition.occurrences if o.alias == alias)
    table = body.tables[alias].name
    called = table if table.endswith(f".{alias}") else f"{table} {alias}"
    columns = ", ".join(f"{c.alias}.{c.column}" for c in missing if c.alias == alias)
    return (
        f"{said} is not unique in the view{place(node)}: one may match several rows of "
        f"{called}, which {columns} distinguishes",
        f"select {columns} and name it in key, or GROUP BY the key",
    )


def _check_there(definition: ViewDefinition, name: str, made: Clause, body: Body) -> None:
    there = present(body.joins, body.where)
    holds = [*body.where, *holding(body.joins, there)]
    rejected = [rejects_null(part) for part in holds]
    sure = {column for columns, _ in rejected for column in columns}
    for alias in there:
        table = body.tables[alias]
        sure |= {
            ColumnRef(alias, column.name)
            for column in table.columns
            if not column.nullable or column.name in table.key
        }
    if _never_null(made.node, sure, {text for _, text in rejected if text}):
        return
    outside = [f"{alias} is missing from some rows" for alias in made.aliases - there]
    why = f": {outside[0]}" if outside else ""
    text = unwrapped(made.node).sql("postgres")
    hint = f"add WHERE {text} IS NOT NULL"
    if body.group is not None:  # without groups the value would tell no rows apart
        hint += f", or make it coalesce({text}, …)"
    raise ViewError(
        f"views.{definition.name}.key: {name!r}{place(made.node)} can be NULL{why}, and a row "
        "without a key cannot be stored",
        hint,
    )


_PARTS = (exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract, exp.JSONBExtractScalar)
_MAYBE = (exp.Null, exp.Nullif, exp.Bracket, exp.ArraySize, exp.Any, exp.All, *_PARTS)
_FAITHFUL = ("cardinality", "date_part", "to_char")
"""Functions that the parser knows by name only, and that give NULL only of NULL."""


def _maybe(node: exp.Expr) -> bool:
    """Whether a part may be NULL where no column is."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() not in _FAITHFUL
    return isinstance(node, _MAYBE)


def _never_null(node: exp.Expr, sure: set[ColumnRef], shapes: set[str]) -> bool:
    """Whether an expression has a value in every row: known functions give NULL only of NULL."""
    node = unwrapped(node)
    if shape(node) in shapes or isinstance(node, exp.Literal | exp.Boolean):
        return True
    if isinstance(node, exp.Column):
        return ColumnRef(node.table, node.name) in sure
    if isinstance(node, exp.Is | exp.NullSafeEQ | exp.NullSafeNEQ | exp.Concat):
        return True
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return any(_never_null(part, sure, shapes) for part in (node.this, *node.expressions))
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        results = [branch.args["true"] for branch in node.args["ifs"]]
        return default is not None and all(
            _never_null(part, sure, shapes) for part in (default, *results)
        )
    if _maybe(node):
        return False
    columns = {ColumnRef(part.table, part.name) for part in node.find_all(exp.Column)}
    inner = any(_maybe(part) or isinstance(part, exp.Case | exp.Coalesce) for part in node.walk())
    return not inner and columns <= sure
