"""The tree written as SQL again, with placeholders for what only a run knows. Pure.

A mirror stands as ``"__mirror"."schema.table"``, its rows of both states as ``"__both"."…"``, the
changed rows as ``"__changed"``, the wanted keys as ``"__keys"``; ``Template`` puts relations there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from views.maintain.mirror import MirrorTable
from views.maintain.tree.parser import text
from views.maintain.tree.tree import (
    SUBQUERY,
    Block,
    Joined,
    Leaf,
    Output,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    Tree,
)

MIRROR, BOTH = '"__mirror"', '"__both"'
CHANGED, KEYS = '"__changed"', '"__keys"'
RESERVED = ("__mirror", "__both", "__changed", "__keys", SUBQUERY, "__touched", "__group")
_PLACE = re.compile(rf'({MIRROR}|{BOTH})\."((?:[^"]|"")+)"')
_SUB = re.compile(rf"SELECT ({SUBQUERY}\d+)\b")


def quoted(name: str) -> str:
    """An identifier of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Template:
    """SQL with places for relations; ``columns`` are those read of each table."""

    text: str
    columns: Mapping[str, Sequence[str]]

    def fill(
        self,
        relation: Callable[[str], str],
        given: str,
        images: Callable[[str], str] | None = None,
    ) -> str:
        """The SQL over relations: ``given`` are the changed rows or the wanted keys, ``images``
        the old and new images of a table, where both states are read at once."""

        def put(found: re.Match[str]) -> str:
            table = found[2].replace('""', '"')
            if found[1] == MIRROR:
                return relation(table)
            assert images is not None, "this query reads both states"
            names = ", ".join(quoted(name) for name in self.columns[table])
            return (
                f"(SELECT {names} FROM {relation(table)} UNION ALL "
                f"SELECT {names} FROM {images(table)}) AS both_states"
            )

        return _PLACE.sub(put, self.text).replace(CHANGED, given).replace(KEYS, given)

    def tables(self, both: bool = False) -> tuple[str, ...]:
        """The tables that are read, or those of which both states are."""
        place = BOTH if both else MIRROR
        found = (match[2] for match in _PLACE.finditer(self.text) if match[1] == place)
        return tuple(dict.fromkeys(name.replace('""', '"') for name in found))


@dataclass(slots=True)
class Writer:
    """Writes queries of one statement.

    ``columns`` are what is read of each table. ``replaced`` says what to read for an alias instead
    of its source, ``extra`` has further conditions of a block, by its identity. ``place`` is what
    tables stand as.
    """

    statement: Statement
    columns: Mapping[str, Sequence[str]]
    replaced: dict[str, str] = field(default_factory=dict)
    extra: dict[int, list[str]] = field(default_factory=dict)
    place: str = MIRROR

    def query(self, query: Query) -> str:
        """A query, without parentheses."""
        if isinstance(query, Block):
            return self.block(query)
        if isinstance(query, Recursion):
            return self._recursion(query)
        return self._set_operation(query)

    def _set_operation(self, query: SetOperation) -> str:
        word = query.kind.upper() + (" ALL" if query.all else "")
        made = f"({self.query(query.left)}) {word} ({self.query(query.right)})"
        return made + self._tail(query.order, query.limit)

    def _recursion(self, query: Recursion) -> str:
        names = ", ".join(quoted(name) for name in query.columns)
        word = "UNION ALL" if query.all else "UNION"
        body = f"({self.query(query.anchor)}) {word} ({self.query(query.step)})"
        called = quoted(query.name)
        return f"WITH RECURSIVE {called}({names}) AS ({body}) SELECT {names} FROM {called}"

    def block(self, block: Block, outputs: Sequence[Output] | None = None) -> str:
        """One SELECT, with other outputs than its own if they are given."""
        shown = block.outputs if outputs is None else outputs
        parts = ["SELECT", self._distinct(block)]
        parts.append(", ".join(f"{self.node(out.node)} AS {quoted(out.name)}" for out in shown))
        if block.tree is not None:
            parts.append("FROM " + self.tree(block.tree, block.sources))
        conditions = [self.node(part) for part in block.where] + self.extra.get(id(block), [])
        parts.append(where(conditions))
        parts.append(self._group(block, shown))
        if block.having:
            parts.append("HAVING " + all_of([self.node(part) for part in block.having]))
        made = " ".join(part for part in parts if part)
        return made + self._tail(self._order(block), block.limit)

    def _distinct(self, block: Block) -> str:
        if not block.distinct_on:
            return "DISTINCT" if block.distinct else ""
        return f"DISTINCT ON ({', '.join(self.node(part) for part in block.distinct_on)})"

    def _group(self, block: Block, shown: Sequence[Output]) -> str:
        if block.sets is not None:
            return self.node(block.sets).strip()
        if not block.group:
            return "GROUP BY ()" if block.group is not None else ""
        items = []
        for part in block.group:
            if constant(part):
                place = [at + 1 for at, out in enumerate(shown) if out.node == part]
                items.append(str(place[0]) if place else f"({self.node(part)} || '')")
            else:
                items.append(self.node(part))
        return "GROUP BY " + ", ".join(items)

    def _order(self, block: Block) -> list[exp.Expr]:
        return [item for item in block.order if not constant(item)]

    def _tail(self, order: Sequence[exp.Expr], limit: Sequence[exp.Expr]) -> str:
        made = f" ORDER BY {', '.join(self.node(item) for item in order)}" if order else ""
        return made + "".join(" " + self.node(part).strip() for part in limit)

    def node(self, node: exp.Expr) -> str:
        """An expression, its subqueries written where they stand."""
        subqueries = self.statement.subqueries
        return _SUB.sub(lambda found: self.query(subqueries[found[1]]), text(node))

    def tree(self, tree: Tree, sources: Mapping[str, Source]) -> str:
        """FROM without its word."""
        if isinstance(tree, Leaf):
            return self.source(sources[tree.alias])
        left, right = self.tree(tree.left, sources), self.tree(tree.right, sources)
        if isinstance(tree.right, Joined):
            right = f"({right})"
        if not tree.on and tree.kind == "inner":
            return f"{left} CROSS JOIN {right}"
        word = {"inner": "JOIN", "left": "LEFT JOIN", "full": "FULL JOIN"}[tree.kind]
        on = all_of([self.node(part) for part in tree.on]) if tree.on else "true"
        return f"{left} {word} {right} ON {on}"

    def source(self, source: Source) -> str:
        """An item of FROM under its alias."""
        called = quoted(source.alias)
        if source.alias in self.replaced:
            return f"{self.replaced[source.alias]} AS {called}"
        if source.table is not None:
            return f"{self.table(source.table, self.place)} AS {called}"
        if source.recursion:
            return f"{quoted(source.recursion)} AS {called}"
        names = ", ".join(quoted(name) for name in source.columns)
        if source.query is not None:
            word = "LATERAL " if source.lateral else ""
            return f"{word}({self.query(source.query)}) AS {called}({names})"
        assert source.call is not None
        return self._call(source, source.call, called, names)

    def _call(self, source: Source, call: exp.Expr, called: str, names: str) -> str:
        if isinstance(call, exp.Values):
            rows = ", ".join(self._row(part) for part in call.expressions)
            return f"(VALUES {rows}) AS {called}({names})"
        word = " WITH ORDINALITY" if source.ordinality else ""
        alias = source.node.args.get("alias")
        typed = alias.args.get("columns") or [] if isinstance(alias, exp.TableAlias) else []
        if any(isinstance(part, exp.ColumnDef) for part in typed):
            names = ", ".join(text(part) for part in typed)
        return f"LATERAL {self.node(call)}{word} AS {called}({names})"

    def _row(self, row: exp.Expr) -> str:
        made = self.node(row)
        return made if isinstance(row, exp.Tuple) else f"({made})"

    def table(self, table: MirrorTable, place: str) -> str:
        """The columns of a table that the view reads."""
        names = ", ".join(quoted(name) for name in self.columns[table.table])
        return f"(SELECT {names} FROM {place}.{quoted(table.table)})"


def constant(node: exp.Expr) -> bool:
    """Whether an item of GROUP BY or ORDER BY is a constant, which means something else there."""
    inner = node.this if isinstance(node, exp.Ordered) else node
    return isinstance(inner, exp.Literal | exp.Null | exp.Boolean | exp.Neg) and not any(
        True for _ in inner.find_all(exp.Column)
    )


def all_of(conditions: Iterable[str]) -> str:
    """Conditions joined by AND."""
    return " AND ".join(f"({condition})" for condition in conditions)


def where(conditions: Sequence[str]) -> str:
    """WHERE, or nothing."""
    return f"WHERE {all_of(conditions)}" if conditions else ""


def within(writer: Writer, prefix: Sequence[tuple[str, exp.Expr]], called: str) -> list[str]:
    """Conditions: expressions have the values of a row of ``called``, NULL like any other."""
    made = []
    for name, node in prefix:
        sql, value = f"({writer.node(node)})", quoted(name)
        listed = f"{sql} = ANY(ARRAY(SELECT {value} FROM {called}))"
        none = f"{sql} IS NULL AND EXISTS (SELECT FROM {called} WHERE {value} IS NULL)"
        made.append(f"{listed} OR ({none})")
    if len(prefix) > 1:
        same = " AND ".join(
            f"t.{quoted(name)} IS NOT DISTINCT FROM ({writer.node(node)})" for name, node in prefix
        )
        made.append(f"EXISTS (SELECT FROM {called} AS t WHERE {same})")
    return made
