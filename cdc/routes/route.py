"""Routes: the topic of a table, where it is not ``<source>.<schema>.<table>``. Pure.

As Debezium's ``ByLogicalTableRouter`` has it, a topic may hold several tables, whose keys then say
which one a row is of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cdc.routes.content import EVENTS, ROWS, TopicContent
from cdc.routes.patterns import Pattern, parse_pattern
from cdc.topics import kafka_name, table_topic

KEY_FIELD: Final = "__table"
"""What the field is called by default that tells the tables of one topic apart."""
PLAIN: Final = "{source}.{schema}.{table}"
"""Debezium's name of a topic, as a template."""
_VARIABLE: Final = re.compile(r"\{(\w*)\}")
_NAMES: Final = ("source", "schema", "table")


@dataclass(frozen=True, slots=True)
class Route:
    """``tables`` are patterns, ``match`` an expression over ``schema.table``: a table is of the
    route that both fit. ``topic`` is a template of ``{source}``, ``{schema}``, ``{table}`` and the
    groups of ``match``."""

    topic: str
    tables: tuple[str, ...] = ()
    match: str = ""
    key_field: str = ""
    """Added to each key, to tell tables of one topic apart; empty: none."""
    distinct_keys: bool = False
    """Whether no two tables of a topic ever have the same key, as who wrote the route says."""
    partition_by: tuple[str, ...] = ()
    """Columns of the key that choose the partition in place of the whole key."""
    content: TopicContent = EVENTS
    rows_topic: str = ""
    """A second topic, as a template, that has the rows of the same changes; empty: none."""
    rows: TopicContent = ROWS

    @property
    def beside(self) -> Route:
        """The route of the second topic, if there is one."""
        if not self.rows_topic:
            return self
        return replace(self, topic=self.rows_topic, content=self.rows, rows_topic="")

    @property
    def shared(self) -> bool:
        """Whether a topic of it may hold several tables."""
        return bool(self.key_field) or self.distinct_keys

    @property
    def shares_events(self) -> bool:
        """The same of the first topic alone: the second one may be the one of several."""
        apart = self.rows_topic and {"schema", "table"} <= set(variables(self.topic))
        return self.shared and not apart


class Place(NamedTuple):
    """Where a table's events are. ``identifier`` is what ``key_field`` says of the table: the topic
    that it would have without a route. ``shared`` says whether the topic may hold several tables,
    ``rows_shared`` whether the second one may. ``route`` is the route's number, -1 without."""

    topic: str
    key_field: str = ""
    identifier: str = ""
    partition_by: tuple[str, ...] = ()
    shared: bool = False
    route: int = -1
    content: TopicContent = EVENTS
    rows_topic: str = ""
    rows: TopicContent = ROWS
    rows_shared: bool = False

    @property
    def topics(self) -> list[str]:
        """The table's topics, that of its rows behind the other."""
        return [self.topic, self.rows_topic] if self.rows_topic else [self.topic]

    @property
    def beside(self) -> Place:
        """The place of rows that stand beside events."""
        return self._replace(
            topic=self.rows_topic, content=self.rows, rows_topic="", shared=self.rows_shared
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """What must not change for a topic that holds records, as progress marks have it."""
        told: dict[str, Any] = {"topic": self.topic}
        if self.key_field:
            told["key_field"] = self.key_field
        if self.partition_by:
            told["partition_by"] = list(self.partition_by)
        if self.rows_topic:
            told["rows"] = {"topic": self.rows_topic, **self.rows.recorded}
        return told | self.content.recorded

    @property
    def key_tail(self) -> bytes:
        """What stands behind a key's columns, as JSON."""
        if not self.key_field:
            return b""
        return f',"{self.key_field}":"{self.identifier}"'.encode()


@lru_cache(maxsize=1 << 14)
def place_of(source: str, routes: tuple[Route, ...], schema: str, table: str) -> Place:
    """By the first route that is of the table; without one, Debezium's name."""
    plain = table_topic(source, schema, table)
    for number, route in enumerate(routes):
        groups = _groups(route, schema, table)
        if groups is not None:
            names = dict(zip(_NAMES, (source, schema, table), strict=True))
            known, told = {**groups, **names}, plain if route.key_field else ""
            return Place(
                _named(route.topic, known), route.key_field, told, route.partition_by,
                route.shares_events, number, route.content, _named(route.rows_topic, known),
                route.rows, route.shared,
            )  # fmt: skip
    return Place(plain)


def _named(template: str, known: Mapping[str, str]) -> str:
    return kafka_name(_VARIABLE.sub(lambda one: known[one[1]], template))


def variables(topic: str) -> list[str]:
    """The names in a template. Raises ``ValueError`` for a brace that is part of none."""
    rest = _VARIABLE.sub("", topic)
    if "{" in rest or "}" in rest:
        raise ValueError("has a brace that is not part of {source}, {schema}, {table} or a group")
    return _VARIABLE.findall(topic)


def known_variables(match: str) -> list[str]:
    """What a template may name. Raises ``re.error``, and ``ValueError`` for a group that has the
    name of something else."""
    groups = re.compile(match) if match else None
    if groups is None:
        return list(_NAMES)
    if taken := [name for name in groups.groupindex if name in _NAMES]:
        raise ValueError(
            f"has a group {taken[0]}, and {{{taken[0]}}} in a topic is the name of the {taken[0]}: "
            "call the group something else"
        )
    return [*_NAMES, *map(str, range(1, groups.groups + 1)), *groups.groupindex]


def merges(topic: str, tables: Sequence[str]) -> bool:
    """Whether a topic of such a route is plainly meant for several tables: neither a table's name
    nor a group of an expression is in it, and more than one table may fit."""
    named = set(variables(topic)) - {"source", "schema"}
    several = len(tables) != 1 or not parse_pattern(tables[0]).exact
    return not named and several


def _groups(route: Route, schema: str, table: str) -> dict[str, str] | None:
    """The groups of a table that the route is of; None of another one."""
    if route.tables and not any(one.matches(schema, table) for one in _patterns(route.tables)):
        return None
    if not route.match:
        return {}
    found = _expression(route.match).fullmatch(f"{schema}.{table}")
    if found is None:
        return None
    numbered = {str(i): text or "" for i, text in enumerate(found.groups(), 1)}
    return {**numbered, **{name: text or "" for name, text in found.groupdict().items()}}


@lru_cache(maxsize=256)
def _patterns(texts: tuple[str, ...]) -> list[Pattern]:
    return list(map(parse_pattern, texts))


@lru_cache(maxsize=256)
def _expression(text: str) -> re.Pattern[str]:
    return re.compile(text)
