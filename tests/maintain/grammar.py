"""Random views: joins, groups, windows, subqueries, set operations, nested in each other. Pure.

What is drawn has one answer: orders are total, and subqueries have one row at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

SCHEMA = """
create table a (id int primary key, x int, y int, s text);
create table b (id int primary key, a_id int, x int, v int not null);
create table c (k text primary key, x int, p int);
create table d (a int, n int, x int, s text, primary key (a, n));
"""
TABLES = {
    "a": (("id", "int", False), ("x", "int", True), ("y", "int", True), ("s", "text", True)),
    "b": (("id", "int", False), ("a_id", "int", True), ("x", "int", True), ("v", "int", False)),
    "c": (("k", "text", False), ("x", "int", True), ("p", "int", True)),
    "d": (("a", "int", False), ("n", "int", False), ("x", "int", True), ("s", "text", True)),
}
KEYS = {"a": ("id",), "b": ("id",), "c": ("k",), "d": ("a", "n")}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation: its name, int or text, and whether it may be NULL."""

    name: str
    kind: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """SQL that can stand in FROM, its columns, and those that tell its rows apart."""

    sql: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


@dataclass(slots=True)
class Grammar:
    """Draws views. ``number`` makes names that are used once."""

    random: Random
    number: int = 0
    forms: list[Callable[[int], Relation]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.forms = [
            self.joined, self.joined, self.grouped, self.grouped, self.filtered, self.distinct,
            self.union_all, self.set_operation, self.windowed, self.first_of, self.lateral_top,
            self.lateral_value, self.elements, self.scalar, self.common, self.nested_join,
        ]  # fmt: skip

    def view(self) -> tuple[str, tuple[str, ...]]:
        """A view's SQL and its key."""
        made = self.relation(self.random.choice((1, 1, 1, 2, 2, 3)))
        if self.random.random() < 0.06:
            made = self.rolled_up()
        if self.random.random() < 0.05:
            made = self.recursive()
        alias = self.alias()
        shown = ", ".join(f"{alias}.{column.name}" for column in made.columns)
        if made.sql.startswith("("):
            return made.sql[1:-1], made.key
        return f"select {shown} from {made.sql} {alias}", made.key

    def relation(self, depth: int) -> Relation:
        """A relation of at most this depth."""
        if depth <= 0:
            return self.table()
        return self.random.choice(self.forms)(depth - 1)

    def table(self) -> Relation:
        """A table."""
        name = self.random.choice(tuple(TABLES))
        columns = tuple(Column(*column) for column in TABLES[name])
        return Relation(name, columns, KEYS[name])

    def alias(self) -> str:
        """A new name."""
        self.number += 1
        return f"q{self.number}"

    def one(self, relation: Relation, alias: str, kind: str = "int") -> str:
        """A column of a kind, or a constant if there is none."""
        found = [column.name for column in relation.columns if column.kind == kind]
        if not found:
            return "2" if kind == "int" else "'u'"
        return f"{alias}.{self.random.choice(found)}"

    def condition(self, relation: Relation, alias: str, depth: int) -> str:
        """Something that holds for some rows."""
        one = self.one(relation, alias)
        text = self.one(relation, alias, "text")
        drawn = self.random.randrange(14)
        simple = (
            f"{one} > {self.random.randrange(4)}",
            f"{one} is not null",
            f"{one} is null",
            f"{one} <> {self.random.randrange(4)} or {self.one(relation, alias)} = 1",
            f"{text} in ('u', 'v')",
            f"{one} is distinct from {self.one(relation, alias)}",
            f"coalesce({one}, 1) <= 2",
        )
        if drawn < len(simple):
            return simple[drawn]
        return self.subquery(relation, alias, depth, drawn)

    def subquery(self, relation: Relation, alias: str, depth: int, drawn: int) -> str:
        """A condition that asks other rows."""
        inner, here = self.relation(min(depth, 1)), self.alias()
        tied = f"{self.one(inner, here)} = {self.one(relation, alias)}"
        more = f" and {self.one(inner, here)} > 1" if self.random.random() < 0.4 else ""
        source = f"from {inner.sql} {here}"
        if drawn == 7:
            return f"exists (select {source} where {tied}{more})"
        if drawn == 8:
            return f"not exists (select {source} where {tied}{more})"
        if drawn == 9:
            return f"{self.one(relation, alias)} in (select {self.one(inner, here)} {source})"
        if drawn == 10:
            return f"{self.one(relation, alias)} not in (select {self.one(inner, here)} {source})"
        if drawn == 11:
            value = f"select max({self.one(inner, here)}) {source} where {tied}{more}"
            return f"coalesce(({value}), 0) > 1"
        if drawn == 12:
            other = self.one(relation, alias)
            return f"({self.one(relation, alias)} = 1 or exists (select {source} where {tied} and "\
                   f"{self.one(inner, here)} = {other}))"  # fmt: skip
        return f"{self.one(relation, alias)} >= (select min({self.one(inner, here)}) {source})"

    def where(self, relation: Relation, alias: str, depth: int, chance: float = 0.2) -> str:
        """WHERE, or nothing."""
        if self.random.random() > chance:
            return ""
        return f" where {self.condition(relation, alias, depth)}"

    def filtered(self, depth: int) -> Relation:
        """Some rows."""
        inner, alias = self.relation(depth), self.alias()
        shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
        where = self.where(inner, alias, depth, 1.0)
        return Relation(
            f"(select {shown} from {inner.sql} {alias}{where})", inner.columns, inner.key
        )

    def joined(self, depth: int) -> Relation:
        """Two relations joined in one of the ways there are."""
        left, right = self.relation(depth), self.relation(min(depth, 1))
        one, other = self.alias(), self.alias()
        kind = self.random.choice(("join", "join", "left join", "left join", "right join",
                                   "full join"))  # fmt: skip
        on = f"{self.one(left, one)} = {self.one(right, other)}"
        if len(right.key) == 1 and self.random.random() < 0.6:
            kind_of = {column.name: column.kind for column in right.columns}[right.key[0]]
            on = f"{self.one(left, one, kind_of)} = {other}.{right.key[0]}"
        if kind != "full join" and self.random.random() < 0.3:
            on += f" and {self.one(right, other)} >= {self.one(left, one)}"
        elif kind != "full join" and self.random.random() < 0.15:
            on = f"{self.one(left, one)} between {self.one(right, other)} and 3"
        return self._of_two(left, right, one, other, kind, on, depth)

    def _of_two(self, left, right, one, other, kind, on, depth) -> Relation:  # type: ignore[no-untyped-def]
        columns: list[Column] = []
        shown: list[str] = []
        key: list[str] = []
        for relation, alias, missing in (
            (left, one, kind in ("right join", "full join")),
            (right, other, kind in ("left join", "full join")),
        ):
            for column in relation.columns:
                in_key = column.name in relation.key
                if not in_key and self.random.random() < 0.4:
                    continue
                self.number += 1
                name = f"{column.name[:1]}{self.number}"
                value = f"{alias}.{column.name}"
                nullable = column.nullable or missing
                if in_key and missing:
                    value = f"coalesce({value}, {'-1' if column.kind == 'int' else repr('-')})"
                    nullable = False
                key += [name] if in_key else []
                columns.append(Column(name, column.kind, nullable))
                shown.append(f"{value} as {name}")
        where = ""
        if self.random.random() < 0.3:
            where = self.where(left, one, min(depth, 1), 1.0)
        sql = (
            f"(select {', '.join(shown)} from {left.sql} {one} {kind} {right.sql} {other} on {on}"
            f"{where})"
        )
        return Relation(sql, tuple(columns), tuple(key))

    def nested_join(self, depth: int) -> Relation:
        """A chain of three tables, of which the first one's key is the key."""
        first = self.relation(depth)
        names = [self.alias() for _ in range(3)]
        shown = ", ".join(f"{names[0]}.{column.name}" for column in first.columns)
        kinds = [self.random.choice(("left join", "join")) for _ in range(2)]
        self.number += 1
        extra = (Column(f"m{self.number}", "int", True), Column(f"n{self.number}", "int", True))
        sql = (
            f"(select {shown}, {names[1]}.x as m{self.number}, {names[2]}.v as n{self.number} "
            f"from {first.sql} {names[0]} {kinds[0]} a {names[1]} on {names[1]}.id = "
            f"{self.one(first, names[0])} {kinds[1]} b {names[2]} on {names[2]}.id = "
            f"{names[1]}.{self.random.choice('xy')})"
        )
        return Relation(sql, (*first.columns, *extra), first.key)

    def grouped(self, depth: int) -> Relation:
        """Groups by one or two expressions."""
        inner, alias = self.relation(depth), self.alias()
        found = list(inner.columns)
        self.random.shuffle(found)
        items, columns = [], []
        for column in found[: self.random.choice((1, 1, 2))]:
            self.number += 1
            name = f"g{self.number}"
            value = f"{alias}.{column.name}"
            if column.nullable:
                value = f"coalesce({value}, {'-1' if column.kind == 'int' else repr('-')})"
            items.append(f"{value} as {name}")
            columns.append(Column(name, column.kind, False))
        places = ", ".join(str(number + 1) for number in range(len(items)))
        key = tuple(column.name for column in columns)
        for value, kind in self.random.sample(self._aggregates(inner, alias), 2):
            self.number += 1
            items.append(f"{value} as v{self.number}")
            columns.append(Column(f"v{self.number}", kind, True))
        where = self.where(inner, alias, depth)
        having = self.random.choice(("", "", "", " having count(*) > 1"))
        sql = (
            f"(select {', '.join(items)} from {inner.sql} {alias}{where} group by {places}{having})"
        )
        return Relation(sql, tuple(columns), key)

    def _aggregates(self, inner: Relation, alias: str) -> list[tuple[str, str]]:
        one = self.one(inner, alias)
        order = ", ".join(f"{alias}.{name}" for name in inner.key)
        text = self.one(inner, alias, "text")
        return [
            ("count(*)::int", "int"),
            (f"sum({one})::int", "int"),
            (f"max({one})", "int"),
            (f"min({one}) filter (where {one} > 1)", "int"),
            (f"count(distinct {one})::int", "int"),
            (f"string_agg({text}, ',' order by {order})", "text"),
        ]

    def distinct(self, depth: int) -> Relation:
        """DISTINCT of one or two columns."""
        inner, alias = self.relation(depth), self.alias()
        found = list(inner.columns)
        self.random.shuffle(found)
        items, columns = [], []
        for column in found[: self.random.choice((1, 2))]:
            self.number += 1
            other = "-1" if column.kind == "int" else "'-'"
            items.append(f"coalesce({alias}.{column.name}, {other}) as e{self.number}")
            columns.append(Column(f"e{self.number}", column.kind, False))
        where = self.where(inner, alias, depth)
        sql = f"(select distinct {', '.join(items)} from {inner.sql} {alias}{where})"
        return Relation(sql, tuple(columns), tuple(column.name for column in columns))

    def union_all(self, depth: int) -> Relation:
        """Two branches that a literal tells apart."""
        parts, names = [], (self.alias(), self.alias(), self.alias())
        for literal in ("l", "r"):
            inner, alias = self.relation(depth), self.alias()
            place = f"{alias}.{inner.key[0]}::text"
            where = self.where(inner, alias, depth)
            rest = [f"{alias}.{name}::text" for name in inner.key[1:]]
            whole = " || '/' || ".join([place, *rest])
            if rest:
                whole = place
            value = self.one(inner, alias)
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

    def set_operation(self, depth: int) -> Relation:
        """UNION, INTERSECT or EXCEPT of one column."""
        parts, name = [], self.alias()
        for _ in range(self.random.choice((2, 2, 3))):
            inner, alias = self.relation(depth), self.alias()
            where = self.where(inner, alias, depth)
            value = f"coalesce({self.one(inner, alias)}, -1)"
            parts.append(f"select {value} as {name} from {inner.sql} {alias}{where}")
        sql = parts[0]
        for part in parts[1:]:
            sql += f" {self.random.choice(('union', 'intersect', 'except'))} {part}"
        return Relation(f"({sql})", (Column(name, "int", False),), (name,))

    def windowed(self, depth: int) -> Relation:
        """A window or two over partitions."""
        inner, alias = self.relation(depth), self.alias()
        shown = [f"{alias}.{column.name}" for column in inner.columns]
        columns = list(inner.columns)
        order = ", ".join(f"{alias}.{name}" for name in inner.key)
        for _ in range(self.random.choice((1, 1, 2))):
            one, by = self.one(inner, alias), self.one(inner, alias)
            function = self.random.choice((
                "row_number()", f"sum({one})", f"lag({one})", f"max({one})", "count(*)"
            ))  # fmt: skip
            self.number += 1
            shown.append(
                f"({function} over (partition by {by} order by {order}))::int as w{self.number}"
            )
            columns.append(Column(f"w{self.number}", "int", True))
        where = self.where(inner, alias, depth)
        sql = f"(select {', '.join(shown)} from {inner.sql} {alias}{where})"
        return Relation(sql, tuple(columns), inner.key)

    def first_of(self, depth: int) -> Relation:
        """DISTINCT ON."""
        inner, alias = self.relation(depth), self.alias()
        self.number += 1
        name = f"f{self.number}"
        by = f"coalesce({self.one(inner, alias)}, -1)"
        columns = (Column(name, "int", False), *inner.columns)
        shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
        order = ", ".join(f"{alias}.{key}" for key in inner.key)
        where = self.where(inner, alias, depth)
        sql = (
            f"(select distinct on ({by}) {by} as {name}, {shown} from {inner.sql} {alias}{where} "
            f"order by {by}, {self.one(inner, alias)} desc nulls last, {order})"
        )
        return Relation(sql, columns, (name,))

    def lateral_top(self, depth: int) -> Relation:
        """The first rows of another relation for each row."""
        left, right = self.relation(depth), self.table()
        one, other, top = self.alias(), self.alias(), self.alias()
        order = ", ".join(f"{other}.{name}" for name in right.key)
        self.number += 1
        names = [f"t{self.number}_{name}" for name in right.key]
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
            f"{self.one(right, other)} = {self.one(left, one)} order by "
            f"{self.one(right, other)} desc nulls last, {order} limit 2) {top})"
        )
        return Relation(sql, columns, (*left.key, *names))

    def lateral_value(self, depth: int) -> Relation:
        """An aggregate of another relation for each row."""
        left, right = self.relation(depth), self.relation(min(depth, 1))
        one, other, value = self.alias(), self.alias(), self.alias()
        shown = ", ".join(f"{one}.{column.name}" for column in left.columns)
        self.number += 1
        sql = (
            f"(select {shown}, {value}.n{self.number} from {left.sql} {one} left join lateral "
            f"(select count(*)::int as n{self.number} from {right.sql} {other} where "
            f"{self.one(right, other)} = {self.one(left, one)}) {value} on true)"
        )
        return Relation(sql, (*left.columns, Column(f"n{self.number}", "int", True)), left.key)

    def elements(self, depth: int) -> Relation:
        """A row for each number up to a column's value."""
        inner, one, each = self.relation(depth), self.alias(), self.alias()
        shown = ", ".join(f"{one}.{column.name}" for column in inner.columns)
        sql = (
            f"(select {shown}, {each} from {inner.sql} {one}, "
            f"generate_series(1, {self.one(inner, one)}) {each})"
        )
        return Relation(sql, (*inner.columns, Column(each, "int", False)), (*inner.key, each))

    def scalar(self, depth: int) -> Relation:
        """A scalar subquery among the columns."""
        inner, alias = self.relation(depth), self.alias()
        other, here = self.relation(min(depth, 1)), self.alias()
        shown = ", ".join(f"{alias}.{column.name}" for column in inner.columns)
        self.number += 1
        tied = f" where {self.one(other, here)} = {self.one(inner, alias)}"
        if self.random.random() < 0.15:
            tied = ""
        value = f"(select max({self.one(other, here)}) from {other.sql} {here}{tied})"
        sql = f"(select {shown}, {value} as s{self.number} from {inner.sql} {alias})"
        return Relation(sql, (*inner.columns, Column(f"s{self.number}", "int", True)), inner.key)

    def common(self, depth: int) -> Relation:
        """A CTE that is read twice."""
        inner, name = self.relation(depth), self.alias()
        one, other = self.alias(), self.alias()
        shown = ", ".join(f"{one}.{column.name}" for column in inner.columns)
        self.number += 1
        on = " and ".join(f"{other}.{key} = {one}.{key}" for key in inner.key)
        if len(inner.key) == 1:
            kinds = {column.name: column.kind for column in inner.columns}
            on = f"{other}.{inner.key[0]} = {self.one(inner, one, kinds[inner.key[0]])}"
        sql = (
            f"(with {name} as {self._selected(inner)} select {shown}, "
            f"{self.one(inner, other)} as o{self.number} from {name} {one} "
            f"left join {name} {other} on {on})"
        )
        return Relation(sql, (*inner.columns, Column(f"o{self.number}", "int", True)), inner.key)

    def _selected(self, inner: Relation) -> str:
        return inner.sql if inner.sql.startswith("(") else f"(select * from {inner.sql})"

    def rolled_up(self) -> Relation:
        """ROLLUP of two columns of a table."""
        inner, alias = self.relation(1), self.alias()
        one, other = self.one(inner, alias), self.one(inner, alias)
        kind = self.random.choice(("rollup", "cube"))
        sql = (
            f"(select grouping({one}, {other}) as g, coalesce({one}, -7) as o1, "
            f"coalesce({other}, -7) as o2, count(*) as n from {inner.sql} {alias} "
            f"group by {kind}({one}, {other}))"
        )
        columns = tuple(Column(name, "int", False) for name in ("g", "o1", "o2", "n"))
        return Relation(sql, columns, ("g", "o1", "o2"))

    def recursive(self) -> Relation:
        """All rows below each row of a tree."""
        sql = (
            "(with recursive r(root, id) as (select a.id, a.id from a where a.x is distinct from 1 "
            "union select r.root, b.id from r join b on b.a_id = r.id where b.v > 0) "
            "select root, id from r)"
        )
        columns = (Column("root", "int", False), Column("id", "int", False))
        return Relation(sql, columns, ("root", "id"))
