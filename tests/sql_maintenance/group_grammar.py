"""Random views of groups over tables and joins, whose aggregates can follow the change. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from tests.sql_maintenance.relations import KEYS, TABLES

SCHEMA = """
create table e (
    id int primary key, a_id int, g text, m numeric, p numeric(6,2), w bigint, f boolean
)
"""
ALL_TABLES = TABLES | {
    "e": (
        ("id", "int", False), ("a_id", "int", True), ("g", "text", True), ("m", "numeric", True),
        ("p", "cents", True), ("w", "int", True), ("f", "bool", True),
    ),
}  # fmt: skip
ALL_KEYS = KEYS | {"e": ("id",)}
_FROM = (
    ("e", "e"),
    ("e", "e"),
    ("e", "e cross join generate_series(1, e.w) each"),
    ("ea", "e join a on a.id = e.a_id"),
    ("ea", "e left join a on a.id = e.a_id"),
    ("ae", "a left join e on e.a_id = a.id and e.w > 0"),
    ("eab", "e join a on a.id = e.a_id left join b on b.a_id = a.id"),
    ("abd", "a left join b on b.a_id = a.id left join d on d.a = b.id"),
    ("abd", "a left join (b join d on d.a = b.id) on b.a_id = a.id"),
    ("ed", "e join d on d.a = e.a_id and d.n >= e.w"),
    ("bac", "b join a on a.id = b.a_id join c on c.x = a.x"),
    ("ea", "e full join a on a.id = e.a_id"),
)
_DERIVED = {
    "a": (
        "(select * from a where x > 0)",
        "(select id, coalesce(x, 1) as x, y, s from a)",
        "(select a.* from a join c on c.x = a.x where c.p is not null)",
    ),
    "b": (
        "(select * from b where v > 1)",
        "(select b.id, b.a_id, b.x, b.v from b left join d on d.a = b.id and d.n = 1)",
    ),
    "c": ("(select k, x, p + 1 as p from c)", "(select distinct k, x, p from c)"),
    "d": ("(select a, n, x, s from d where n > 0 or s = 'u')", "(select * from d)"),
    "e": (
        "(select * from e where w > 1)",
        "(select id, a_id, g, m, p, w + 1 as w, f from e)",
        "(select * from (select * from e where id > 1) q where q.f)",
    ),
}
_WHERE = (
    "{one}.id > 1",
    "exists (select from b z where z.a_id = {one}.id)",
    "not exists (select from d z where z.a = {one}.id and z.n > 1)",
    "{one}.id in (select z.a_id from e z where z.w > 1)",
)


def _derived(tables: str, body: str, random: Random) -> str:
    """FROM with a derived table in the place of one, or of several; or as it is."""
    for name in tables if random.random() < 0.4 else "":
        if random.random() < 0.6:
            made = rf"\g<1>{random.choice(_DERIVED[name])} {name}"
            body = re.sub(rf"(^|join |\(){name}(?= |$)", made, body)
    return body


@dataclass(slots=True)
class GroupGrammar:
    """Draws views."""

    random: Random

    def view(self) -> tuple[str, tuple[str, ...]]:
        """A view's SQL and its key."""
        tables, body = self.random.choice(_FROM)
        columns = [
            (f"{name}.{column}", kind) for name in tables for column, kind, _ in ALL_TABLES[name]
        ]
        shown, group, key = self._keys(tables, columns)
        aggregates = self._aggregates(columns) + self._extremes(tables)
        values = self.random.sample(aggregates, self.random.choice((1, 2, 3)))
        shown += [f"{value} as v{at}" for at, value in enumerate(values)]
        where = ""
        if self.random.random() < 0.35:
            where = f" where {self.random.choice(_WHERE).format(one=tables[0])}"
        by = f" group by {', '.join(group)}" if group else ""
        having = ""
        if self.random.random() < 0.3:
            having = f" having {self.random.choice(aggregates)} is not null and count(*) > 1"
        rest = f"{where}{by}{having}"
        sql = f"select {', '.join(shown)} from {body}{rest}"
        return f"select {', '.join(shown)} from {_derived(tables, body, Random(sql))}{rest}", key

    def _keys(
        self, tables: str, columns: list[tuple[str, str]]
    ) -> tuple[list[str], list[str], tuple[str, ...]]:
        drawn = self.random.random()
        if drawn < 0.12:
            return ["'all' as k0"], [], ("k0",)
        if drawn < 0.3 and tables[0] in "ab":
            one = tables[0]
            return [f"{one}.id as k0", f"{one}.x as k1"], [f"{one}.id", f"{one}.x"], ("k0",)
        found = []
        other = {"int": "-1", "text": "'-'", "bool": "false"}
        plain = [(column, kind) for column, kind in columns if kind in other]
        for column, kind in self.random.sample(plain, self.random.choice((1, 1, 2))):
            found.append(f"coalesce({column}, {other[kind]})")
        names = tuple(f"k{at}" for at in range(len(found)))
        return [f"{sql} as {name}" for sql, name in zip(found, names, strict=True)], found, names

    def _aggregates(self, columns: list[tuple[str, str]]) -> list[str]:
        def one(*kinds: str) -> str:
            found = [column for column, kind in columns if kind in kinds]
            return self.random.choice(found) if found else "1"

        number = one("int", "numeric", "cents")
        truth = one("bool") if "bool" in {kind for _, kind in columns} else f"{number} > 1"
        exact = one("numeric", "cents")
        return [
            "count(*)", f"count({number})", f"count(*) filter (where {truth})",
            f"sum({number})", f"avg({number})", f"sum({exact})", f"avg({exact})",
            f"sum({one('int')})::int", f"avg({one('int')}) filter (where {truth})",
            f"bool_and({truth})", f"bool_or({truth})", f"every({number} > 0)",
            f"sum({exact}) filter (where {truth})", f"sum({exact} * {number})",
            f"coalesce(sum({exact}), 0) + count(*)", f"round(avg({exact}), 1)",
            f"sum(case when {truth} then {number} else 0.250 end)",
            f"count(distinct {number})", f"sum({one('int')}::numeric(8,3))",
            f"sum({one('int')}::smallint)",
        ]  # fmt: skip

    def _extremes(self, tables: str) -> list[str]:
        """What an index of one table finds; of joins it is made of rows, as is the whole view."""
        if len(tables) > 1 and self.random.random() < 0.9:
            return []
        one, other = (f"{tables[0]}.{self.random.choice(('id', 'a_id'))}" for _ in "ab")
        one, other = (name if tables[0] == "e" else f"{tables[0]}.id" for name in (one, other))
        return [
            f"max({one})", f"min({other})", f"max({one}) - min({other}) filter (where {one} > 2)",
            f"max({one} + 1)",
        ]  # fmt: skip
