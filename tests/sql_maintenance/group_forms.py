"""Groups of rows of a relation, and their values. Pure."""

from __future__ import annotations

from tests.sql_maintenance.relations import Column, Draw, Relation


def grouped(draw: Draw, depth: int) -> Relation:
    """Groups by one or two expressions."""
    inner, alias = draw.relation(depth), draw.alias()
    found = list(inner.columns)
    draw.random.shuffle(found)
    items, columns = [], []
    for column in found[: draw.random.choice((1, 1, 2))]:
        draw.number += 1
        name = f"g{draw.number}"
        value = f"{alias}.{column.name}"
        if column.nullable:
            value = f"coalesce({value}, {'-1' if column.kind == 'int' else repr('-')})"
        items.append(f"{value} as {name}")
        columns.append(Column(name, column.kind, False))
    places = ", ".join(str(number + 1) for number in range(len(items)))
    key = tuple(column.name for column in columns)
    for value, kind in draw.random.sample(_aggregates(draw, inner, alias), 2):
        draw.number += 1
        items.append(f"{value} as v{draw.number}")
        columns.append(Column(f"v{draw.number}", kind, True))
    where = draw.where(inner, alias, depth)
    having = draw.random.choice(("", "", "", " having count(*) > 1"))
    sql = f"(select {', '.join(items)} from {inner.sql} {alias}{where} group by {places}{having})"
    return Relation(sql, tuple(columns), key)


def _aggregates(draw: Draw, inner: Relation, alias: str) -> list[tuple[str, str]]:
    one = draw.one(inner, alias)
    order = ", ".join(f"{alias}.{name}" for name in inner.key)
    text = draw.one(inner, alias, "text")
    return [
        ("count(*)::int", "int"),
        (f"sum({one})::int", "int"),
        (f"max({one})", "int"),
        (f"min({one}) filter (where {one} > 1)", "int"),
        (f"count(distinct {one})::int", "int"),
        (f"string_agg({text}, ',' order by {order})", "text"),
    ]


def distinct(draw: Draw, depth: int) -> Relation:
    """DISTINCT of one or two columns."""
    inner, alias = draw.relation(depth), draw.alias()
    found = list(inner.columns)
    draw.random.shuffle(found)
    items, columns = [], []
    for column in found[: draw.random.choice((1, 2))]:
        draw.number += 1
        other = "-1" if column.kind == "int" else "'-'"
        items.append(f"coalesce({alias}.{column.name}, {other}) as e{draw.number}")
        columns.append(Column(f"e{draw.number}", column.kind, False))
    where = draw.where(inner, alias, depth)
    sql = f"(select distinct {', '.join(items)} from {inner.sql} {alias}{where})"
    return Relation(sql, tuple(columns), tuple(column.name for column in columns))


def rolled_up(draw: Draw) -> Relation:
    """ROLLUP of two columns of a table."""
    inner, alias = draw.relation(1), draw.alias()
    one, other = draw.one(inner, alias), draw.one(inner, alias)
    kind = draw.random.choice(("rollup", "cube"))
    sql = (
        f"(select grouping({one}, {other}) as g, coalesce({one}, -7) as o1, "
        f"coalesce({other}, -7) as o2, count(*) as n from {inner.sql} {alias} "
        f"group by {kind}({one}, {other}))"
    )
    columns = tuple(Column(name, "int", False) for name in ("g", "o1", "o2", "n"))
    return Relation(sql, columns, ("g", "o1", "o2"))
