"""Random views over random tables, each from a seed: of one table, joined, and grouped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from cdc.errors import ViewError
from tests.spark_maintenance.aggregated import aggregates, having
from tests.spark_maintenance.expressions import Columns, Expressions, columns_of
from views.parse.definition import ViewDefinition, parse_view
from views.spark.resolution import ResolvedView, resolve
from views.spark.view import MaintainedView, resolve_maintained
from views.table_versions import TableVersion

Versions = Mapping[str, TableVersion]
View = TypeVar("View")
REFUSED: Final = Counter[str]()
"""How many candidates were drawn again, by the reason for which they were refused."""
_EXPECTED: Final = ("not unique", "several groups", "can be NULL", "many values in a group")
"""What only the proof of the key can tell. Any other refusal is a fault of this generator."""
_FAMILIES: Final = (("int2", "int4", "int8"), ("text",), ("date",), ("uuid",), ("numeric",),
                    ("timestamp",), ("timestamptz",))  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    sql: str
    key: tuple[str, ...]


def view(random: Random, versions: Versions) -> MaintainedView:
    """A view of several rows that is accepted, of random candidates."""
    by_name = {table.name: table for table in versions.values()}
    make = random.choice((_grouped, _ungrouped))
    return _accepted(
        lambda: make(_Sources(random, versions, make is _grouped)),
        lambda definition: resolve_maintained(definition, by_name),
    )


def single_view(random: Random, versions: Versions) -> ResolvedView:
    """A view of one table that is accepted."""
    table = versions[random.choice(sorted(versions))]
    return _accepted(
        lambda: _projection(random, table), lambda definition: resolve(definition, table)
    )


def _accepted(
    candidate: Callable[[], Candidate], resolved: Callable[[ViewDefinition], View]
) -> View:
    for _ in range(2000):
        made = candidate()
        try:
            return resolved(parse_view("v", "s", made.key, made.sql))
        except ViewError as error:
            reason = next((part for part in _EXPECTED if part in str(error)), None)
            if reason is None:
                raise AssertionError(f"{made.sql}\n{error}") from error
            REFUSED[reason] += 1
    raise AssertionError("no candidate was accepted")


def _projection(random: Random, table: TableVersion) -> Candidate:
    """Every row for itself: some of its columns, expressions of them, and a filter."""
    alias = random.choice(("x0", "x0", table.table))
    of = Expressions(random, columns_of(table.columns, alias))
    others = [column.name for column in table.columns if column.name not in table.key]
    outputs = [f"{alias}.{name} as k_{name}" for name in table.key]
    outputs += [f"{alias}.{name}" for name in others if random.random() < 0.3]
    outputs += [f"{of.any()} as e{i}" for i in range(random.randint(3, 8))]
    random.shuffle(outputs)
    source = table.table if alias == table.table else f"{table.table} {alias}"
    where = f"\nwhere {of.of('bool', 3)}" if random.random() < 0.8 else ""
    key = tuple(f"k_{name}" for name in table.key)
    return Candidate(f"select {', '.join(outputs)}\nfrom {source}{where}", key)


class _Sources:
    """FROM, and what the rest of a SELECT may name."""

    def __init__(self, random: Random, versions: Versions, grouped: bool) -> None:
        self.random = random
        count = random.choice((1, 2, 2, 3, 3, 4) if grouped else (1, 2, 2, 3, 4))
        self.names = {f"x{i}": versions[random.choice(sorted(versions))] for i in range(count)}
        columns: Columns = {}
        for alias, table in self.names.items():
            for kind, found in columns_of(table.columns, alias).items():
                columns.setdefault(kind, []).extend(found)
        self.of = Expressions(random, columns)
        joins = list(self._joins())
        left = [a for a, join in zip(self.names, joins, strict=True) if join.startswith("left")]
        where = self._where(left)
        self.sql = "\n".join(joins) + (f"\nwhere {' and '.join(where)}" if where else "")

    def known(self, *choices: str) -> list[str]:
        """Those whose columns there are."""
        named = ((one, _COLUMN.findall(one)) for one in choices)
        return [one for one, parts in named if all(self.names[a].column(name) for a, name in parts)]

    def any(self) -> str:
        """A column that is there, as text."""
        return self._text(self.random.choice(sorted(self.names)))

    def _joins(self) -> Iterator[str]:
        seen: list[str] = []
        for alias, table in self.names.items():
            if not seen:
                yield f"from {table.table} {alias}"
            else:
                kind = self.random.choice(
                    ("join", "inner join", "left join", "left outer join", "left join")
                )
                yield f"{kind} {table.table} {alias} {self._condition(seen, alias)}"
            seen.append(alias)

    def _condition(self, seen: list[str], alias: str) -> str:
        random = self.random
        if len(seen) == 1 and random.random() < 0.1:
            kinds = {c.name: c.type for c in self.names[seen[0]].columns}
            shared = [
                c.name
                for c in self.names[alias].columns
                if kinds.get(c.name) == c.type
                and any(c.type.name in family for family in _FAMILIES)
            ]
            if shared:
                return f"using ({', '.join(random.sample(shared, min(len(shared), 2)))})"
        parts = list(self._on(seen, alias))
        return f"on {' and '.join(parts)}"

    def _pairs(self, alias: str, other: str) -> list[tuple[str, str]]:
        """Columns of both that can be equal."""
        return [
            (one.name, two.name)
            for one in self.names[alias].columns
            for two in self.names[other].columns
            for kinds in _FAMILIES
            if one.type.name in kinds and two.type.name in kinds
        ]

    def _on(self, seen: list[str], alias: str) -> Iterator[str]:
        random, key = self.random, self.names[alias].key
        other = random.choice([one for one in seen if self._pairs(alias, one)] or seen)
        pairs = self._pairs(alias, other)
        ofs = {name: [two for one, two in pairs if one == name] for name, _ in pairs}
        columns = [name for name in key if name in ofs] if random.random() < 0.75 else []
        if len(columns) > 1 and random.random() < 0.4:
            columns = columns[:1]
        columns = columns or random.sample(sorted(ofs), min(len(ofs), 1))
        for column in columns:
            sides = [f"{alias}.{column}", f"{other}.{random.choice(ofs[column])}"]
            kind = self.names[alias].column(column)
            if kind is not None and random.random() < 0.1:
                if kind.type.name in _FAMILIES[0]:
                    sides[1] = f"({sides[1]} % 50 + 1)"
                elif kind.type.name == "text":
                    parts = (f"{other}.j ->> 't'", f"{other}.j #>> '{{o,1,t}}'", sides[1])
                    sides[1] = random.choice(self.known(*parts))
            random.shuffle(sides)
            yield " = ".join(sides)
        if not columns:
            yield f"{self._text(alias)} = {self._text(other)}"
        if random.random() < 0.25:
            alone = (f"{alias}.f", f"{alias}.t <> 'u'", f"{alias}.a < 4", f"{alias}.a = 2")
            beside = (f"{alias}.t = 'u'", f"{other}.a > 1", f"{other}.a = 2")
            yield random.choice(self.known(*alone, *beside) or ["true"])
        if random.random() < 0.1:
            own = Expressions(random, columns_of(self.names[alias].columns, alias))
            yield random.choice((own, self._over(*seen, alias))).of("bool", 2)

    def _text(self, alias: str) -> str:
        column = self.names[alias].columns[0]
        zone = " at time zone 'UTC'" if column.type.name == "timestamptz" else ""
        return f"({alias}.{column.name}{zone})::text"

    def _over(self, *aliases: str) -> Expressions:
        columns: Columns = {}
        for alias in aliases:
            for kind, found in columns_of(self.names[alias].columns, alias).items():
                columns.setdefault(kind, []).extend(found)
        return Expressions(self.random, columns)

    def _where(self, left: list[str]) -> list[str]:
        random = self.random
        found = [f"{alias}.id is null" for alias in left if random.random() < 0.1]
        for x in self.names:
            if random.random() < 0.25:
                y = random.choice(sorted(self.names))
                choices = (
                    f"{x}.id is not null", f"not {x}.a is null", f"{x}.a > 1", f"{x}.t <> 'u'",
                    f"'u' = {x}.t", f"{x}.a = 2", f"({x}.f or {y}.b > 2)",
                    f"coalesce({x}.a, 3) = 3", f"{x}.a = {y}.b", f"{x}.j ->> 'n' is not null",
                    f"coalesce({x}.j ->> 't', 'u') = 'u'",
                )  # fmt: skip
                found.append(random.choice(self.known(*choices)))
        return [*found, self.of.of("bool", 3)] if random.random() < 0.3 else found


_NESTED: Final = ("int", "number", "text", "bool", "date", "timestamp", "timestamptz")
"""What an object may hold here: JSON in it is text in a store, and more objects in PostgreSQL."""
_COLUMN: Final = re.compile(r"\b(x\d)\.([a-z]+)\b")


def _ungrouped(sources: _Sources) -> Candidate:
    random, of = sources.random, sources.of
    outputs, key = [], []
    for alias, table in sources.names.items():
        if random.random() < 0.6:
            for column in table.key:
                outputs.append(f"{alias}.{column} as {alias}_k_{column}")
                key.append(f"{alias}_k_{column}")
        elif random.random() < 0.3 and sources.known(f"{alias}.t"):
            outputs.append(f"coalesce({alias}.t, 'none') as {alias}_or")
            key.append(f"{alias}_or")
        for column in random.sample([c.name for c in table.columns], 2):
            outputs.append(f"{alias}.{column} as {alias}_{column}")
    outputs += [f"{of.any()} as e{i}" for i in range(random.randint(0, 3))]
    if len(sources.names) == 1 or random.random() < 0.2:  # of one table only those have mirrors
        one, two = (of.of(random.choice(_NESTED), 2) for _ in range(2))
        fields = f"'a', {one}, 'b c', json_build_object('x', {two})"
        outputs.append(f"json_build_object({fields}) as nested")
    outputs.append(f"coalesce({of.of('int', 0)}, 0) % 50 + 1 as more")
    return Candidate(f"select {', '.join(outputs)}\n{sources.sql}", tuple(key) or ("more",))


def _carried(sources: _Sources, group: list[str]) -> list[str]:
    """Columns that GROUP BY settles without naming them."""
    random, names = sources.random, sources.names
    settled = [x for x in names if all(f"{x}.{column}" in group for column in names[x].key)]
    return [
        random.choice((f"{x}.{column}", *sources.known(f"coalesce({x}.l[1], 'none')")))
        for x in settled
        for column in random.sample([c.name for c in names[x].columns], 2)
    ]


def _grouped(sources: _Sources) -> Candidate:
    random, group = sources.random, list[str]()
    for _ in range(random.randint(1, 2)):
        x = random.choice(sorted(sources.names))
        table = sources.names[x]
        plain = sources.known(
            f"coalesce({x}.t, 'none')", f"coalesce({x}.j ->> 't', 'none')",
            f"coalesce({x}.a % 2, 9)", f"{x}.a", f"{x}.f is true",
            f"coalesce({sources.of.of('text', 2)} || {sources.any()}, 'none')",
        )  # fmt: skip
        choices = [
            *((f"{x}.{column}",) for column in table.key),
            tuple(f"{x}.{column}" for column in table.key),
            *((one,) for one in plain),
        ]
        group += random.choice(choices)
    group = list(dict.fromkeys(group))
    outputs = [f"{item} as g{i}" for i, item in enumerate(group)]
    outputs += [f"{a} as s{i}" for i, a in enumerate(aggregates(random, sources))]
    outputs += [f"{item} as c{i}" for i, item in enumerate(_carried(sources, group))]
    by = [random.choice((item, str(i + 1), f"g{i}")) for i, item in enumerate(group)]
    filtered = f"\nhaving {having(random, sources)}" if random.random() < 0.35 else ""
    sql = f"select {', '.join(outputs)}\n{sources.sql}\ngroup by {', '.join(by)}{filtered}"
    return Candidate(sql, tuple(f"g{i}" for i in range(len(group))))
