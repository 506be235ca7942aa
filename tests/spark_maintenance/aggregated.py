"""Random aggregates, over what a FROM names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Protocol

from tests.spark_maintenance.expressions import Expressions
from views.table_versions import TableVersion


class Sources(Protocol):
    """A FROM: ``names`` are its tables by alias, ``known`` gives what reads columns they have."""

    @property
    def names(self) -> Mapping[str, TableVersion]: ...
    @property
    def of(self) -> Expressions: ...

    def known(self, *choices: str) -> list[str]: ...


def aggregates(random: Random, sources: Sources) -> list[str]:
    x, y = (random.choice(sorted(sources.names)) for _ in range(2))
    of = sources.of
    fields = f"'a', {x}.a, 't', {y}.t, 'n', {x}.n, 'o', json_build_object('d', {x}.d)"
    parts = f"'o', ({x}.j -> 'o')::text, 't', {y}.j #>> '{{o,1,t}}'"
    some = f"'i', {of.of('int', 1)}, 't', {of.of('text', 1)}, 'k', {x}.id"
    order = f'order by {x}.b desc, {y}.t collate "C"'
    choices = sources.known(
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
        f"sum({of.of('int', 2)})",
        f"sum({of.of('number', 2)}) filter (where {of.of('bool', 2)})",
        f"min({of.of('timestamp', 1)})",
        f'max(lower({of.of("text", 2)}) collate "C") filter (where {of.of("bool", 2)})',
        f"count(distinct {of.of('number', 1)})",
        f"bool_or({of.of('bool', 2)})",
        f"array_agg(({of.of('text', 1)})::text {_order(of, 'timestamptz')})",
        f"json_agg(json_build_object({some}) {_order(of, 'int')})",
        f"max({x}.r)",
    )
    return random.sample(choices, min(len(choices), random.randint(1, 5)))


def _order(of: Expressions, kind: str) -> str:
    """By an expression; a literal orders nothing."""
    by = of.of(kind, 1)
    return f"order by {by} desc nulls last" if re.search(r"x\d\.", by) else ""


def having(random: Random, sources: Sources) -> str:
    x, of = random.choice(sorted(sources.names)), sources.of
    conditions = sources.known(
        "count(*) > 1",
        f"max({x}.a) > 2",
        f"sum({x}.b) is not null",
        "1 = count(*)",
        f"(max({of.of('int', 1)}) > 2 or count({of.of('text', 0)}) between 1 and 3)",
        f"coalesce(bool_or({of.of('bool', 2)}), true)",
    )
    return random.choice(conditions)
