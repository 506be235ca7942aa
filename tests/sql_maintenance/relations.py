"""Relations that random views are made of, and what is drawn of them. Pure.

What is drawn has one answer: orders are total, and subqueries have one row at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
class Draw:
    """Draws from ``forms``. ``number`` makes names that are used once."""

    random: Random
    forms: Sequence[Form]
    number: int = 0

    def relation(self, depth: int) -> Relation:
        """A relation of at most this depth."""
        if depth <= 0:
            return self.table()
        return self.random.choice(self.forms)(self, depth - 1)

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


Form = Callable[[Draw, int], Relation]
"""Draws a relation over relations of at most this depth."""
