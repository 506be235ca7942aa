"""Random tables, views over them and changes of their rows, each from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from cdc.errors import ViewError
from views.definition import parse_view
from views.maintained import MaintainedView, resolve_maintained
from views.tables import TableColumn, TableVersion
from views.types import BOOL, DATE, INT4, INT8, TEXT, PgType, array_of, numeric

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]
_PLAIN = (
    TableColumn("a", INT4),
    TableColumn("b", INT8),
    TableColumn("t", TEXT),
    TableColumn("n", numeric(8, 2)),
    TableColumn("d", DATE),
    TableColumn("f", BOOL),
    TableColumn("j", PgType("jsonb")),
    TableColumn("l", array_of(TEXT)),
)
_KEYS = (("id",), ("id",), ("id", "no"))
_VALUES: dict[str, tuple[Any, ...]] = {
    "id": tuple(range(10)),
    "no": tuple(range(3)),
    "a": (*range(8), None),
    "b": (*range(8), None, 2**40),
    "t": ("u", "v", "é", "", None),
    "n": ("1.50", "-2.25", "0.10", "99999.99", None),
    "d": ("2024-02-29", "1999-12-31", None),
    "f": (True, False, None),
    "j": ('{"n": 3, "t": "u"}', '{"n": 1.50, "o": [1.0, {"t": "v"}]}', '{"n": null}', None),
    "l": (["u"], ["v", None, "é, x"], [], None),
}


def tables(random: Random) -> dict[str, TableVersion]:
    """Two to four tables by name; some have a key of two columns."""
    found = {}
    for i in range(random.randint(2, 4)):
        key = random.choice(_KEYS)
        columns = tuple(TableColumn(name, INT4, nullable=False) for name in key) + _PLAIN
        found[f"t{i}"] = TableVersion(f"{i:016}", "public", f"t{i}", columns, key)
    return found


def row(random: Random, table: TableVersion) -> Row:
    return {column.name: random.choice(_VALUES[column.name]) for column in table.columns}


def rows(random: Random, table: TableVersion) -> Rows:
    """Some rows to begin with, by key."""
    made = [row(random, table) for _ in range(random.choice((3, 12, 24)))]
    return {tuple(new[name] for name in table.key): new for new in made}


def change(random: Random, table: TableVersion, rows: Rows) -> None:
    """Insert, replace, update one column of, move or delete a random row."""
    new = row(random, table)
    key = tuple(new[name] for name in table.key)
    kind = random.random()
    if rows and kind < 0.5:
        key = random.choice(sorted(rows))
        old = rows[key]
        if kind < 0.15:
            del rows[key]
        else:
            name = random.choice(table.columns).name
            del rows[key]
            old = {**old, name: new[name]}
            rows[tuple(old[name] for name in table.key)] = old
    else:
        rows[key] = new


@dataclass(frozen=True)
class Candidate:
    sql: str
    key: tuple[str, ...]


def view(random: Random, versions: Mapping[str, TableVersion]) -> MaintainedView:
    """A view that is accepted, of random candidates."""
    by_name = {table.name: table for table in versions.values()}
    grouped = random.random() < 0.5
    for _ in range(2000):
        candidate = _candidate(random, versions, grouped)
        try:
            definition = parse_view("v", "s", candidate.key, candidate.sql)
            return resolve_maintained(definition, by_name)
        except ViewError as error:
            if not _expected(str(error)):
                raise AssertionError(f"{candidate.sql}\n{error}") from error
    raise AssertionError("no candidate was accepted")


_EXPECTED = ("not unique", "several groups", "can be NULL", "many values in a group")


def _expected(message: str) -> bool:
    return any(part in message for part in _EXPECTED)


def _candidate(random: Random, versions: Mapping[str, TableVersion], grouped: bool) -> Candidate:
    count = random.choice((1, 2, 2, 3, 3, 4)) if grouped else random.choice((2, 2, 3, 4))
    names = {f"x{i}": versions[random.choice(sorted(versions))] for i in range(count)}
    joins = list(_joins(random, names))
    left = [alias for alias, join in zip(names, joins, strict=True) if join.startswith("left")]
    where = _where(random, names, left)
    source = "\n".join(joins)
    clause = f"\nwhere {' and '.join(where)}" if where else ""
    if grouped:
        return _grouped(random, names, source, clause)
    return _ungrouped(random, names, source, clause)


def _joins(random: Random, names: Mapping[str, TableVersion]) -> Iterator[str]:
    seen: list[str] = []
    for alias, table in names.items():
        if not seen:
            yield f"from {table.table} {alias}"
        else:
            kind = random.choice(
                ("join", "inner join", "left join", "left outer join", "left join")
            )
            condition = f"on {' and '.join(_on(random, names, seen, alias))}"
            if len(seen) == 1 and random.random() < 0.1:
                condition = f"using ({random.choice(('a', 'id', 't, a'))})"
            yield f"{kind} {table.table} {alias} {condition}"
        seen.append(alias)


def _on(
    random: Random, names: Mapping[str, TableVersion], seen: list[str], alias: str
) -> Iterator[str]:
    other = random.choice(seen)
    columns = list(names[alias].key) if random.random() < 0.75 else [random.choice("ab")]
    if len(columns) == 2 and random.random() < 0.4:
        columns = columns[:1]
    if random.random() < 0.1:
        columns = [random.choice("td")]
    for column in columns:
        twin = column if column in "td" else random.choice(("a", "b", "id"))
        sides = [f"{alias}.{column}", f"{other}.{twin}"]
        if column not in "td" and random.random() < 0.1:
            sides[1] += " + 1"
        if column == "t" and random.random() < 0.5:
            sides[1] = random.choice((f"{other}.j ->> 't'", f"{other}.j #>> '{{o,1,t}}'"))
        random.shuffle(sides)
        yield " = ".join(sides)
    if random.random() < 0.25:
        alone = (f"{alias}.f", f"{alias}.t <> 'u'", f"{alias}.a < 4", f"{alias}.a = 2")
        yield random.choice((*alone, f"{alias}.t = 'u'", f"{other}.a > 1", f"{other}.a = 2"))
    if random.random() < 0.1:
        yield f"{alias}.b >= {random.choice(seen)}.a"


def _where(random: Random, names: Mapping[str, TableVersion], left: list[str]) -> list[str]:
    found = [f"{alias}.id is null" for alias in left if random.random() < 0.1]
    for alias in names:
        if random.random() < 0.25:
            other = random.choice(sorted(names))
            found.append(
                random.choice(
                    (
                        f"{alias}.id is not null",
                        f"not {alias}.a is null",
                        f"{alias}.a > 1",
                        f"{alias}.t <> 'u'",
                        f"'u' = {alias}.t",
                        f"{alias}.a = 2",
                        f"({alias}.f or {other}.b > 2)",
                        f"coalesce({alias}.a, 3) = 3",
                        f"{alias}.a = {other}.b",
                        f"{alias}.j ->> 'n' is not null",
                        f"coalesce({alias}.j ->> 't', 'u') = 'u'",
                    )
                )
            )
    return found


def _ungrouped(
    random: Random, names: Mapping[str, TableVersion], source: str, where: str
) -> Candidate:
    outputs, key = [], []
    for alias, table in names.items():
        if random.random() < 0.6:
            for column in table.key:
                outputs.append(f"{alias}.{column} as {alias}_{column}")
                key.append(f"{alias}_{column}")
        elif random.random() < 0.3:
            outputs.append(f"coalesce({alias}.t, 'none') as {alias}_k")
            key.append(f"{alias}_k")
        for column in random.sample("abtndfjl", 2):
            outputs.append(f"{alias}.{column} as {alias}_{column}")
        if random.random() < 0.3:
            outputs.append(f"({alias}.j ->> 'n')::numeric(8,2) as {alias}_jn")
    outputs.append("coalesce(x0.a, 0) + 1 as more")
    return Candidate(f"select {', '.join(outputs)}\n{source}{where}", tuple(key) or ("more",))


def _aggregates(random: Random, names: Mapping[str, TableVersion]) -> list[str]:
    x, y = (random.choice(sorted(names)) for _ in range(2))
    fields = f"'a', {x}.a, 't', {y}.t, 'n', {x}.n, 'o', json_build_object('d', {x}.d)"
    parts = f"'o', ({x}.j -> 'o')::text, 't', {y}.j #>> '{{o,1,t}}'"
    order = f'order by {x}.b desc, {y}.t collate "C"'
    choices = [
        "count(*)",
        f"count({x}.a)",
        f"count(distinct {x}.t)",
        f"count(*) filter (where {y}.a > 2)",
        f"sum({x}.a)",
        f"sum({x}.b) filter (where {y}.f)",
        f"sum({x}.n)",
        f"avg({x}.a)",
        f"round(avg({x}.n), 2)",
        f"min({x}.d)",
        f'max({x}.t collate "C")',
        f"min({x}.n + {y}.n)",
        f"bool_and({x}.f)",
        f"bool_or({x}.a > {y}.a)",
        f"every({x}.f)",
        f"sum(({x}.j ->> 'n')::numeric(8,2))",
        f"bool_or({x}.j @> '{{\"n\": 3}}')",
        f"json_agg(json_build_object({parts}) {order})",
        f"json_agg(json_build_object({fields}) {order})",
        f"jsonb_agg(jsonb_build_object({fields})) filter (where {x}.id is not null)",
        f"coalesce(json_agg(json_build_object({fields}) {order}) filter (where {y}.f), '[]')",
        f"array_agg({x}.a order by {y}.d nulls first)",
        f"collect_list(struct({x}.a, {y}.t as u))",
        f"collect_list({x}.t)",
        f"string_agg({x}.t, ', ' order by {x}.a)",
        f"sum({x}.a) + count(*)",
        f"case when count(*) > 2 then max({x}.a) else 0 end",
    ]
    return random.sample(choices, random.randint(1, 5))


def _carried(random: Random, names: Mapping[str, TableVersion], group: list[str]) -> list[str]:
    """Columns that GROUP BY settles without naming them."""
    settled = [x for x in names if all(f"{x}.{column}" in group for column in names[x].key)]
    return [
        random.choice((f"{x}.{column}", f"coalesce({x}.l[1], 'none')"))
        for x in settled
        for column in random.sample("abtndfjl", 2)
    ]


def _grouped(
    random: Random, names: Mapping[str, TableVersion], source: str, where: str
) -> Candidate:
    group: list[str] = []
    for _ in range(random.randint(1, 2)):
        x = random.choice(sorted(names))
        choices = [
            *((f"{x}.{column}",) for column in names[x].key),
            tuple(f"{x}.{column}" for column in names[x].key),
            (f"coalesce({x}.t, 'none')",),
            (f"coalesce({x}.j ->> 't', 'none')",),
            (f"coalesce({x}.a % 2, 9)",),
            (f"{x}.a",),
            (f"{x}.f is true",),
        ]
        group += random.choice(choices)
    group = list(dict.fromkeys(group))
    outputs = [f"{item} as g{i}" for i, item in enumerate(group)]
    outputs += [f"{item} as s{i}" for i, item in enumerate(_aggregates(random, names))]
    outputs += [f"{item} as c{i}" for i, item in enumerate(_carried(random, names, group))]
    by = [random.choice((item, str(i + 1), f"g{i}")) for i, item in enumerate(group)]
    having = ""
    if random.random() < 0.35:
        x = random.choice(sorted(names))
        conditions = ("count(*) > 1", f"max({x}.a) > 2", f"sum({x}.b) is not null", "1 = count(*)")
        having = f"\nhaving {random.choice(conditions)}"
    sql = f"select {', '.join(outputs)}\n{source}{where}\ngroup by {', '.join(by)}{having}"
    return Candidate(sql, tuple(f"g{i}" for i in range(len(group))))
