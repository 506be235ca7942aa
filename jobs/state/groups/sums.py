"""The SQL of a view's group table: its columns, what rows add to it, values made of it. Pure.

A row of ``groups.v<id>`` has what is grouped by, counts and sums. A sum of numeric shows as many
digits as the finest of its values, so that there is a row for each ``scale`` of them, and one for
those that are none: NULL, NaN, Infinity. The columns of a row:

* ``k0``… the view's key, ``o0``… what is grouped by besides, ``c0``… the scales, ``h`` a digest of
  ``o`` and ``c``, which the primary key has in their place: none of them is NULL, or long;
* ``part``: 0 is what the build has put there, 1 what batches have added since;
* ``n`` rows, and of each argument ``n0``… values, ``s0``… their sum, ``t0``… how many are true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from views.maintain.groups.group_plan import GroupPlan, Relation
from views.maintain.groups.values import Value
from views.maintain.tree.render import quoted

GROUP_SCHEMA: Final = "groups"
BUILT, ADDED = 0, 1
_SMALL: Final = ("smallint", "integer")
_NONE, _NAN, _HIGH, _LOW = -1, -2, -3, -4
"""Scales of what has none."""


@dataclass(frozen=True, slots=True)
class GroupSums:
    """The group table of a generation. ``types`` are those of the arguments that are summed:
    smallint, integer, bigint or numeric; ``grouped_types`` those of what is grouped
    by, as they are declared."""

    view_id: int
    plan: GroupPlan
    types: Mapping[str, str]
    grouped_types: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        return f"{GROUP_SCHEMA}.v{self.view_id}"

    @property
    def keys(self) -> list[str]:
        return [name for name, _ in self.plan.keys]

    @property
    def scaled(self) -> list[str]:
        """The arguments whose values have scales."""
        return [name for name, type_ in self.types.items() if type_ == "numeric"]

    @property
    def grouped(self) -> list[str]:
        """The columns that tell rows of one part apart."""
        return [*self.keys, *self.plan.others, *(f"c{name[1:]}" for name in self.scaled)]

    @property
    def sums(self) -> list[str]:
        """The columns that are added up."""
        found = ["n"]
        for one in self.plan.arguments:
            found.append(f"n{one.name[1:]}")
            found += [f"s{one.name[1:]}"] if "sum" in one.kinds else []
            found += [f"t{one.name[1:]}"] if "truth" in one.kinds else []
        return found

    @property
    def columns(self) -> list[str]:
        return [*self.grouped, "h", "part", *self.sums]

    # -- what rows of the body come to ------------------------------------------------------

    def counted(self, weighted: Sequence[tuple[int, str]]) -> str:
        """SELECT of ``grouped`` and ``sums`` over rows of the body, each SELECT of them with what
        its rows count: 1 or -1."""
        rows = " union all ".join(
            f"select {weight} as w, b.* from ({body}) b" for weight, body in weighted
        )
        there = " and ".join(f"{name} is not null" for name in self.keys)
        kept = f" where {there}" if there else ""
        scales = "".join(f", {_scale(name)} as c{name[1:]}" for name in self.scaled)
        signed = any(weight < 0 for weight, _ in weighted)
        sums = ", ".join(f"{sql} as {name}" for name, sql in self._counted(signed))
        listed = ", ".join(self.grouped)
        first = f"{listed}, " if listed else ""
        return f"select {first}{sums} from (select b.*{scales} from ({rows}) b{kept}) b" + (
            f" group by {listed}" if listed else ""
        )

    def _counted(self, signed: bool) -> list[tuple[str, str]]:
        found = [("n", "sum(w)" if signed else "count(*)")]
        for one in self.plan.arguments:
            at, name = one.name[1:], one.name
            count = f"sum(w) filter (where {name} is not null)" if signed else f"count({name})"
            found.append((f"n{at}", count))
            if "sum" in one.kinds:
                value = f"w * {name}::numeric" if signed else name
                there = f" filter (where c{at} >= 0)" if name in self.scaled else ""
                found.append((f"s{at}", f"sum({value}){there}"))
            if "truth" in one.kinds:
                rows = "sum(w)" if signed else "count(*)"
                found.append((f"t{at}", f"{rows} filter (where {name})"))
        return [(name, f"coalesce({sql}, 0){_type(name)}") for name, sql in found]

    # -- what is written --------------------------------------------------------------------

    def add(self, change: str) -> str:
        """The statement that adds a SELECT of ``grouped`` and ``sums`` to the table, with what the
        build has put there of the same groups. It gives the places of rows that are empty now."""
        keys = [*self.keys, "h"]
        same = " and ".join(f"b.{name} = d.{name}" for name in keys)
        listed = ", ".join([*self.grouped, "h", *self.sums])
        grouped = ", ".join([*self.grouped, "h"])
        summed = ", ".join(f"sum({name}){_type(name)}" for name in self.sums)
        added = ", ".join(f"{name} = held.{name} + excluded.{name}" for name in self.sums)
        empty = " and ".join(f"held.{name} = 0" for name in self.sums)
        return (
            f"with delta as materialized ({self._digested(change)}), "
            f"base as (delete from {self.table} b using delta d where b.part = {BUILT} "
            f"and {same} returning b.*), "
            f"moved as (select {listed} from delta union all select {listed} from base) "
            f"insert into {self.table} as held ({grouped}, {', '.join(self.sums)}, part) "
            f"select {grouped}, {summed}, {ADDED} from moved group by {grouped} "
            f"on conflict ({', '.join(keys)}, part) do update set {added} "
            f"returning case when {empty} then held.ctid::text end"
        )

    def build(self, relation: Relation) -> str:
        """The statement that puts there what the body has beyond what batches have added."""
        listed = ", ".join([*self.grouped, "h", *self.sums])
        grouped = ", ".join([*self.grouped, "h"])
        summed = ", ".join(f"sum({name}){_type(name)} as {name}" for name in self.sums)
        taken = ", ".join([*self.grouped, "h", *(f"-{name} as {name}" for name in self.sums)])
        body = self._digested(self.counted([(1, self.plan.body(relation))]))
        return (
            f"insert into {self.table} ({listed}, part) select {listed}, {BUILT} from ("
            f"select {grouped}, {summed} from (select {listed} from ({body}) body union all "
            f"select {taken} from {self.table} where part = {ADDED}) g group by {grouped}) g "
            f"where {self._any()}"
        )

    def _digested(self, counted: str) -> str:
        """With ``h``, without what comes to nothing."""
        told = [name for name in self.grouped if name not in self.keys]
        digest = f"md5((row({', '.join(told)}))::text)::uuid" if told else f"'{_NOTHING}'::uuid"
        return f"select g.*, {digest} as h from ({counted}) g where {self._any()}"

    def _any(self) -> str:
        return " or ".join(f"{name} <> 0" for name in self.sums)

    # -- what is shown ----------------------------------------------------------------------

    def shown(self, keys: str) -> str:
        """SELECT of what is grouped by and the values, of groups whose key may be one of those in
        the relation ``keys``."""
        plan = self.plan
        asked = [
            f"{name} = any(array(select {quoted(shown)} from {keys}))" for name, shown in plan.keys
        ]
        kept = f" where {' and '.join(asked)}" if asked else ""
        listed = ", ".join(self.grouped)
        summed = ", ".join(f"sum({name}) as {name}" for name in self.sums)
        first = f"{listed}, " if listed else ""
        grouped = f" group by {listed}" if listed else ""
        parts = f"select {first}{summed} from {self.table}{kept}{grouped} having sum(n) > 0"
        by = ", ".join([*self.keys, *plan.others])
        values = ", ".join(f"{self._value(one)} as {one.name}" for one in plan.values)
        columns = ", ".join(part for part in (by, values) if part) or "count(*) as n"
        return f"select {columns} from ({parts}) p" + (f" group by {by}" if by else "")

    def _value(self, value: Value) -> str:
        if not value.argument:
            return "coalesce(sum(n), 0)::bigint"
        at = value.argument[1:]
        count = f"coalesce(sum(n{at}), 0)"
        if value.function == "count":
            return f"{count}::bigint"
        if value.function in ("sum", "avg"):
            return self._sum(value, at, count)
        if value.function == "bool_or":
            return f"case when {count} > 0 then sum(t{at}) > 0 end"
        return f"case when {count} > 0 then sum(t{at}) = sum(n{at}) end"

    def _sum(self, value: Value, at: str, count: str) -> str:
        total = f"sum(s{at})"
        if value.argument in self.scaled:
            none = {mark: f"coalesce(sum(n) filter (where c{at} = {mark}), 0) > 0"
                    for mark in (_NAN, _HIGH, _LOW)}  # fmt: skip
            total = (
                f"case when {none[_NAN]} or ({none[_HIGH]} and {none[_LOW]}) then 'NaN'::numeric "
                f"when {none[_HIGH]} then 'Infinity'::numeric "
                f"when {none[_LOW]} then '-Infinity'::numeric "
                f"else sum(s{at}) filter (where c{at} >= 0) end"
            )
        if value.function == "avg":
            return f"case when {count} > 0 then ({total}) / {count} end"
        type_ = "bigint" if self.types[value.argument] in _SMALL else "numeric"
        return f"(case when {count} > 0 then {total} end)::{type_}"


_NOTHING: Final = "00000000-0000-0000-0000-000000000000"


def _type(name: str) -> str:
    return "::numeric" if name.startswith("s") else "::bigint"


def _scale(name: str) -> str:
    return (
        f"case when {name} is null then {_NONE} when {name} = 'NaN' then {_NAN} "
        f"when {name} = 'Infinity' then {_HIGH} when {name} = '-Infinity' then {_LOW} "
        f"else scale({name}) end"
    )
