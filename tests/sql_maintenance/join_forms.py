"""Joins of relations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.sql_maintenance.relations import Column, Draw, Relation

TWICE: Final = "pair"
"""Columns of a relation under two aliases are named so, and no other."""
_OUTER_LEFT: Final = ("left join", "full join")
_OUTER_RIGHT: Final = ("right join", "full join")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Side(NamedTuple):
    """A relation of a join, its alias, and whether rows may lack it."""

    relation: Relation
    alias: str
    missing: bool


def joined(draw: Draw, depth: int) -> Relation:
    """Two relations joined in one of the ways there are."""
    left, right = draw.relation(depth), draw.relation(min(depth, 1))
    one, other = draw.alias(), draw.alias()
    kind = draw.random.choice(("join", "join", "left join", "left join", "right join",
                               "full join"))  # fmt: skip
    on = f"{draw.one(left, one)} = {draw.one(right, other)}"
    if len(right.key) == 1 and draw.random.random() < 0.6:
        kind_of = {column.name: column.kind for column in right.columns}[right.key[0]]
        on = f"{draw.one(left, one, kind_of)} = {other}.{right.key[0]}"
    if kind != "full join" and draw.random.random() < 0.3:
        on += f" and {draw.one(right, other)} >= {draw.one(left, one)}"
    elif kind != "full join" and draw.random.random() < 0.15:
        on = f"{draw.one(left, one)} between {draw.one(right, other)} and 3"
    sides = Side(left, one, kind in _OUTER_RIGHT), Side(right, other, kind in _OUTER_LEFT)
    return _of_sides(draw, sides, f"{left.sql} {one} {kind} {right.sql} {other} on {on}", depth)


def _of_sides(
    draw: Draw, sides: Sequence[Side], body: str, depth: int, first: Mapping[str, str] = _NOTHING
) -> Relation:
    """The columns ``first``, the keys of all sides, and some of their other columns."""
    columns = [Column(name, "int", True) for name in first]
    shown = [f"{value} as {name}" for name, value in first.items()]
    key: list[str] = []
    for relation, alias, missing in sides:
        for column in relation.columns:
            in_key = column.name in relation.key
            if not in_key and draw.random.random() < 0.4:
                continue
            draw.number += 1
            name = f"{column.name[:1]}{draw.number}"
            value = f"{alias}.{column.name}"
            nullable = column.nullable or missing
            if in_key and missing:
                value = f"coalesce({value}, {'-1' if column.kind == 'int' else repr('-')})"
                nullable = False
            key += [name] if in_key else []
            columns.append(Column(name, column.kind, nullable))
            shown.append(f"{value} as {name}")
    where = ""
    if draw.random.random() < 0.3:
        where = draw.where(sides[0].relation, sides[0].alias, min(depth, 1), 1.0)
    sql = f"(select {', '.join(shown)} from {body}{where})"
    return Relation(sql, tuple(columns), tuple(key))


def joined_twice(draw: Draw, depth: int) -> Relation:
    """A relation under two aliases, and one that is joined by columns of both: beside them, or to a
    subquery of them, or to groups of it; or groups of all that."""
    other, over = draw.relation(min(depth, 1)), draw.alias()
    asked = draw.one(other, over), draw.one(other, over)
    kinds = {column.name: column.kind for column in other.columns}
    if draw.random.random() < 0.6:
        key = next((name for name in other.key if kinds[name] == "int"), None)
        asked = (asked[0] if key is None else f"{over}.{key}",) * 2
    kind = draw.random.choice(("join", "join", "left join"))
    sides, body, pair = _pair(draw, depth)
    ours = Side(other, over, False)
    if draw.random.random() < 0.3:
        on = " and ".join(f"{a} = {b}" for a, b in zip(asked, pair.values(), strict=False))
        body = f"{body} {kind} {other.sql} {over} on {on}"
        made = _of_sides(draw, [*sides, ours._replace(missing=kind != "join")], body, depth, pair)
        return made if draw.random.random() < 0.5 else _counted(draw, made, tuple(pair)[2:])
    below, under = _of_sides(draw, sides, body, depth, pair), draw.alias()
    if draw.random.random() < 0.4:  # whoever joins these groups knows what they are by
        below = replace(_counted(draw, below, tuple(pair)[:2]), key=())
    on = " and ".join(f"{a} = {under}.{b}" for a, b in zip(asked, pair, strict=False))
    body = f"{other.sql} {over} {kind} {below.sql} {under} on {on}"
    made = _of_sides(draw, [ours, Side(below, under, kind == "left join")], body, depth)
    keys = made.key[: len(other.key)]
    return made if draw.random.random() < 0.5 else _counted(draw, made, keys)


def _pair(draw: Draw, depth: int) -> tuple[list[Side], str, dict[str, str]]:
    """A relation joined with itself, or by a table between: FROM, and a column of each of the two
    and one that either may give, by their names."""
    inner, left, right = draw.relation(depth), draw.alias(), draw.alias()
    kind = draw.random.choice(("join", "join", "left join", "full join"))
    ours, theirs = draw.one(inner, left), draw.one(inner, right)
    sides = [Side(inner, left, kind == "full join"), Side(inner, right, kind != "join")]
    if draw.random.random() < 0.5:
        body = f"{inner.sql} {left} {kind} {inner.sql} {right} on {ours} = {theirs}"
    else:
        table, middle = draw.table(), draw.alias()
        outer = draw.random.choice(("join", "left join"))
        sides.append(Side(table, middle, outer == "left join" or kind == "full join"))
        body = (
            f"{inner.sql} {left} {outer} {table.sql} {middle} on {draw.one(table, middle)} = {ours}"
            f" {kind} {inner.sql} {right} on {theirs} = {draw.one(table, middle)}"
        )
    draw.number += 1
    same = draw.one(inner, left)
    values = [same, draw.one(inner, right), f"coalesce({ours}, {theirs})"]
    if draw.random.random() < 0.6:
        values[1] = same.replace(f"{left}.", f"{right}.")
    return sides, body, {f"{TWICE}{draw.number}_{at}": value for at, value in enumerate(values)}


def _counted(draw: Draw, inner: Relation, by: Sequence[str]) -> Relation:
    """How many rows have the same values in these columns."""
    draw.number += 1
    name, places = f"n{draw.number}", ", ".join(str(at + 1) for at in range(len(by)))
    of = {column.name: column for column in inner.columns}
    none = {"int": "-1", "text": "'-'"}
    shown = ", ".join(
        f"coalesce({one}, {none[of[one].kind]}) as {one}" if of[one].nullable else one for one in by
    )
    columns = (*(replace(of[one], nullable=False) for one in by), Column(name, "int", False))
    counted = f"select {shown}, count(*)::int as {name} from {inner.sql} {draw.alias()}"
    return Relation(f"({counted} group by {places})", columns, tuple(by))


def nested_join(draw: Draw, depth: int) -> Relation:
    """A chain of three tables, of which the first one's key is the key."""
    first = draw.relation(depth)
    names = [draw.alias() for _ in range(3)]
    shown = ", ".join(f"{names[0]}.{column.name}" for column in first.columns)
    kinds = [draw.random.choice(("left join", "join")) for _ in range(2)]
    draw.number += 1
    extra = (Column(f"m{draw.number}", "int", True), Column(f"n{draw.number}", "int", True))
    sql = (
        f"(select {shown}, {names[1]}.x as m{draw.number}, {names[2]}.v as n{draw.number} "
        f"from {first.sql} {names[0]} {kinds[0]} a {names[1]} on {names[1]}.id = "
        f"{draw.one(first, names[0])} {kinds[1]} b {names[2]} on {names[2]}.id = "
        f"{names[1]}.{draw.random.choice('xy')})"
    )
    return Relation(sql, (*first.columns, *extra), first.key)
