"""Relations over several queries: set operations, CTEs. Pure."""

from __future__ import annotations

from tests.sql_maintenance.relations import Column, Draw, Relation


def union_all(draw: Draw, depth: int) -> Relation:
    """Two branches that a literal tells apart."""
    parts, names = [], (draw.alias(), draw.alias(), draw.alias())
    for literal in ("l", "r"):
        inner, alias = draw.relation(depth), draw.alias()
        place = f"{alias}.{inner.key[0]}::text"
        where = draw.where(inner, alias, depth)
        rest = [f"{alias}.{name}::text" for name in inner.key[1:]]
        whole = " || '/' || ".join([place, *rest])
        if rest:
            whole = place
        value = draw.one(inner, alias)
        group = f" group by {place}" if rest else ""
        shown = f"max({value})" if rest else value
        parts.append(
            f"select '{literal}' as {names[0]}, {whole} as {names[1]}, {shown} as {names[2]} "
            f"from {inner.sql} {alias}{where}{group}"
        )
    columns = (
        Column(names[0], "text", False),
        Column(names[1], "text", False),
        Column(names[2], "int", True),
    )
    return Relation(f"({' union all '.join(parts)})", columns, names[:2])


def set_operation(draw: Draw, depth: int) -> Relation:
    """UNION, INTERSECT or EXCEPT of one column."""
    parts, name = [], draw.alias()
    for _ in range(draw.random.choice((2, 2, 3))):
        inner, alias = draw.relation(depth), draw.alias()
        where = draw.where(inner, alias, depth)
        value = f"coalesce({draw.one(inner, alias)}, -1)"
        parts.append(f"select {value} as {name} from {inner.sql} {alias}{where}")
    sql = parts[0]
    for part in parts[1:]:
        sql += f" {draw.random.choice(('union', 'intersect', 'except'))} {part}"
    return Relation(f"({sql})", (Column(name, "int", False),), (name,))


def common(draw: Draw, depth: int) -> Relation:
    """A CTE that is read twice."""
    inner, name = draw.relation(depth), draw.alias()
    one, other = draw.alias(), draw.alias()
    shown = ", ".join(f"{one}.{column.name}" for column in inner.columns)
    draw.number += 1
    on = " and ".join(f"{other}.{key} = {one}.{key}" for key in inner.key)
    if len(inner.key) == 1:
        kinds = {column.name: column.kind for column in inner.columns}
        on = f"{other}.{inner.key[0]} = {draw.one(inner, one, kinds[inner.key[0]])}"
    sql = (
        f"(with {name} as {_selected(inner)} select {shown}, "
        f"{draw.one(inner, other)} as o{draw.number} from {name} {one} "
        f"left join {name} {other} on {on})"
    )
    return Relation(sql, (*inner.columns, Column(f"o{draw.number}", "int", True)), inner.key)


def _selected(inner: Relation) -> str:
    return inner.sql if inner.sql.startswith("(") else f"(select * from {inner.sql})"


def recursive() -> Relation:
    """All rows below each row of a tree."""
    sql = (
        "(with recursive r(root, id) as (select a.id, a.id from a where a.x is distinct from 1 "
        "union select r.root, b.id from r join b on b.a_id = r.id where b.v > 0) "
        "select root, id from r)"
    )
    columns = (Column("root", "int", False), Column("id", "int", False))
    return Relation(sql, columns, ("root", "id"))
