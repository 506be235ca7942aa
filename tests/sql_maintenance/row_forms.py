"""Relations that have each row of another, with more columns or rows to it. Pure."""

from __future__ import annotations

from tests.sql_maintenance.relations import Column, Draw, Relation


def filtered(draw: Draw, depth: int) -> Relation:
    """Some rows."""
    inner, alias = draw.relation(depth), draw.alias()
    shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
    where = draw.where(inner, alias, depth, 1.0)
    return Relation(f"(select {shown} from {inner.sql} {alias}{where})", inner.columns, inner.key)


def windowed(draw: Draw, depth: int) -> Relation:
    """A window or two over partitions."""
    inner, alias = draw.relation(depth), draw.alias()
    shown = [f"{alias}.{column.name}" for column in inner.columns]
    columns = list(inner.columns)
    order = ", ".join(f"{alias}.{name}" for name in inner.key)
    for _ in range(draw.random.choice((1, 1, 2))):
        one, by = draw.one(inner, alias), draw.one(inner, alias)
        function = draw.random.choice((
            "row_number()", f"sum({one})", f"lag({one})", f"max({one})", "count(*)"
        ))  # fmt: skip
        draw.number += 1
        shown.append(
            f"({function} over (partition by {by} order by {order}))::int as w{draw.number}"
        )
        columns.append(Column(f"w{draw.number}", "int", True))
    where = draw.where(inner, alias, depth)
    sql = f"(select {', '.join(shown)} from {inner.sql} {alias}{where})"
    return Relation(sql, tuple(columns), inner.key)


def first_of(draw: Draw, depth: int) -> Relation:
    """DISTINCT ON."""
    inner, alias = draw.relation(depth), draw.alias()
    draw.number += 1
    name = f"f{draw.number}"
    by = f"coalesce({draw.one(inner, alias)}, -1)"
    columns = (Column(name, "int", False), *inner.columns)
    shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
    order = ", ".join(f"{alias}.{key}" for key in inner.key)
    where = draw.where(inner, alias, depth)
    sql = (
        f"(select distinct on ({by}) {by} as {name}, {shown} from {inner.sql} {alias}{where} "
        f"order by {by}, {draw.one(inner, alias)} desc nulls last, {order})"
    )
    return Relation(sql, columns, (name,))


def lateral_top(draw: Draw, depth: int) -> Relation:
    """The first rows of another relation for each row."""
    left, right = draw.relation(depth), draw.table()
    one, other, top = draw.alias(), draw.alias(), draw.alias()
    order = ", ".join(f"{other}.{name}" for name in right.key)
    draw.number += 1
    names = [f"t{draw.number}_{name}" for name in right.key]
    inner = ", ".join(f"{other}.{key} as {name}" for key, name in zip(right.key, names))  # noqa: B905
    shown = ", ".join(f"{one}.{column.name}" for column in left.columns)
    kinds = {column.name: column.kind for column in right.columns}
    columns = (
        *left.columns, *(Column(n, kinds[k], False) for n, k in zip(names, right.key))  # noqa: B905
    )  # fmt: skip
    picked = ", ".join(f"{top}.{name}" for name in names)
    sql = (
        f"(select {shown}, {picked} from {left.sql} {one} "
        f"cross join lateral (select {inner} from {right.sql} {other} where "
        f"{draw.one(right, other)} = {draw.one(left, one)} order by "
        f"{draw.one(right, other)} desc nulls last, {order} limit 2) {top})"
    )
    return Relation(sql, columns, (*left.key, *names))


def lateral_value(draw: Draw, depth: int) -> Relation:
    """An aggregate of another relation for each row."""
    left, right = draw.relation(depth), draw.relation(min(depth, 1))
    one, other, value = draw.alias(), draw.alias(), draw.alias()
    shown = ", ".join(f"{one}.{column.name}" for column in left.columns)
    draw.number += 1
    sql = (
        f"(select {shown}, {value}.n{draw.number} from {left.sql} {one} left join lateral "
        f"(select count(*)::int as n{draw.number} from {right.sql} {other} where "
        f"{draw.one(right, other)} = {draw.one(left, one)}) {value} on true)"
    )
    return Relation(sql, (*left.columns, Column(f"n{draw.number}", "int", True)), left.key)


def elements(draw: Draw, depth: int) -> Relation:
    """A row for each number up to a column's value."""
    inner, one, each = draw.relation(depth), draw.alias(), draw.alias()
    shown = ", ".join(f"{one}.{column.name}" for column in inner.columns)
    sql = (
        f"(select {shown}, {each} from {inner.sql} {one}, "
        f"generate_series(1, {draw.one(inner, one)}) {each})"
    )
    return Relation(sql, (*inner.columns, Column(each, "int", False)), (*inner.key, each))


def scalar(draw: Draw, depth: int) -> Relation:
    """A scalar subquery among the columns."""
    inner, alias = draw.relation(depth), draw.alias()
    other, here = draw.relation(min(depth, 1)), draw.alias()
    shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
    draw.number += 1
    tied = f" where {draw.one(other, here)} = {draw.one(inner, alias)}"
    if draw.random.random() < 0.15:
        tied = ""
    value = f"(select max({draw.one(other, here)}) from {other.sql} {here}{tied})"
    sql = f"(select {shown}, {value} as s{draw.number} from {inner.sql} {alias})"
    return Relation(sql, (*inner.columns, Column(f"s{draw.number}", "int", True)), inner.key)
