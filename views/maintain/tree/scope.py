"""Names resolved: a parsed statement made a tree of query blocks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from views.maintain.mirror import MirrorTable
from views.maintain.tree import calls
from views.maintain.tree.blocks import Blocks
from views.maintain.tree.calls import limits, ordering, renamed
from views.maintain.tree.correlated_sources import free
from views.maintain.tree.environment import Common, Env
from views.maintain.tree.errors import refuse
from views.maintain.tree.from_clause import Frame, column, row
from views.maintain.tree.tree import (
    SUBQUERY,
    Block,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    reads,
)


def resolve(view: str, node: exp.Expr, tables: Mapping[str, MirrorTable]) -> Statement:
    """The statement's tree. Raises ``ViewError`` for a name that is not known."""
    resolver = Resolver(view, tables)
    query = resolver.query(node, Env((), {}, {}))
    return Statement(view, query, resolver.subqueries)


@dataclass(slots=True)
class Resolver:
    """Resolves one statement."""

    view: str
    tables: Mapping[str, MirrorTable]
    subqueries: dict[str, Query] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def query(self, node: exp.Expr, env: Env) -> Query:
        """A SELECT, a set operation, or one in parentheses."""
        env = self._with(node, env)
        if isinstance(node, exp.Subquery):
            return self._parenthesised(node, env)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, env)
        if not isinstance(node, exp.Select):
            refuse(self.view, node, "is not a SELECT")
        return self._block(node, env)

    def _block(self, node: exp.Select, env: Env) -> Block:
        def source(item: exp.Expr, frame: Frame) -> Source:
            return self.source(item, frame, env)

        def expression(item: exp.Expr, frame: Frame) -> exp.Expr:
            return self.expression(item, env._replace(frames=(frame, *env.frames)))

        return Blocks(self.view, node, source, expression).block()

    def _with(self, node: exp.Expr, env: Env) -> Env:
        clause = node.args.get("with_")
        if clause is None:
            return env
        common = dict(env.common)
        for cte in clause.expressions:
            if not isinstance(cte.this, exp.Query | exp.Subquery):
                refuse(self.view, cte, "a view only reads", "write SELECT in WITH")
            recursive = bool(clause.args.get("recursive"))
            common[cte.alias] = Common(cte, dict(common), env.frames, recursive)
        return env._replace(common=common)

    def _parenthesised(self, node: exp.Subquery, env: Env) -> Query:
        made = self.query(node.this, env)
        order, limit = ordering(node), limits(node)
        if not order and not limit:
            return made
        if isinstance(made, Recursion) or made.limit or made.order:
            refuse(self.view, node, "ORDER BY or LIMIT of parentheses is not known here",
                   "write SELECT … FROM (…) AS q ORDER BY …")  # fmt: skip
        made.order = [self._by_output(item, made.columns) for item in order]
        made.limit = limit
        return made

    def _by_output(self, item: exp.Expr, columns: tuple[str, ...]) -> exp.Expr:
        """ORDER BY of a set operation names its columns only."""
        found = item.this if isinstance(item, exp.Ordered) else item
        known = isinstance(found, exp.Column) and not found.table and found.name in columns
        if not known and not (isinstance(found, exp.Literal) and found.is_int):
            refuse(self.view, item, "ORDER BY of a set operation names its columns")
        made = item.copy()
        for part in made.find_all(exp.Column):
            part.set("this", exp.Identifier(this=part.name, quoted=True))
        return made

    def _set_operation(self, node: exp.SetOperation, env: Env) -> SetOperation:
        left = self.query(node.left if node.this is None else node.this, env)
        right = self.query(node.expression, env)
        if len(left.columns) != len(right.columns):
            refuse(self.view, node, f"its sides have {len(left.columns)} and "
                   f"{len(right.columns)} columns")  # fmt: skip
        order = [self._by_output(item, left.columns) for item in ordering(node)]
        kind = type(node).__name__.lower()
        return SetOperation(
            kind, not node.args.get("distinct"), left, right, order, limits(node), node
        )

    def expression(self, node: exp.Expr, env: Env) -> exp.Expr:
        """An expression with its columns qualified and its subqueries taken out."""

        def made(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Query) and not isinstance(part, exp.Subquery):
                return self._subquery(part, env)
            if isinstance(part, exp.Subquery):
                plain = part.copy()
                plain.set("this", self._subquery(part, env))
                for name in ("with_", "order", "limit", "offset", "fetch"):
                    plain.set(name, None)
                return plain
            if isinstance(part, exp.Column):
                return self._column(part, env)
            return part

        return node.copy().transform(made)

    def _subquery(self, node: exp.Expr, env: Env) -> exp.Select:
        name = f"{SUBQUERY}{len(self.subqueries)}"
        self.subqueries[name] = Block({}, None, [], [])  # holds the name while inner ones are made
        self.subqueries[name] = self.query(node, env)
        return exp.Select(expressions=[exp.Var(this=name)])

    def _column(self, node: exp.Column, env: Env) -> exp.Expr:
        if node.args.get("catalog"):
            refuse(self.view, node, "a database cannot be named in a view", "leave it out")
        if node.table:
            return self._qualified(node, env)
        name = node.name
        for frame in env.frames:
            found = [shown for shown in frame.shown if shown.name == name]
            if len(found) > 1:
                refuse(self.view, node, f"{name!r} is ambiguous", "name its table")
            if found:
                return self._placed(found[0].node, node)
            if name in frame.called:
                return row(frame.called[name].alias)
        return self._unknown(node, env)

    def _placed(self, found: exp.Expr, node: exp.Expr) -> exp.Expr:
        if isinstance(found, exp.Column):
            return column(found.table, found.name, node)
        return found.copy()

    def _qualified(self, node: exp.Column, env: Env) -> exp.Expr:
        for frame in env.frames:
            source = frame.called.get(node.table)
            if source is None:
                continue
            table = source.table
            if node.args.get("db") and (table is None or table.schema != node.text("db")):
                continue
            if isinstance(node.this, exp.Star):
                return row(source.alias)
            if node.name in source.columns:
                return column(source.alias, node.name, node)
            known = ", ".join(source.columns)
            refuse(
                self.view, node, f"{node.table} has no column {node.name!r}", f"choose from {known}"
            )
        return refuse(self.view, node, f"no table is called {node.table!r} here")

    def _unknown(self, node: exp.Column, env: Env) -> NoReturn:
        names = sorted({shown.name for frame in env.frames for shown in frame.shown})
        refuse(self.view, node, f"no table here has a column {node.name!r}",
               f"choose from {', '.join(names)}")  # fmt: skip

    def source(self, node: exp.Expr, frame: Frame, env: Env) -> Source:
        """An item of FROM. ``frame`` has what stands before it."""
        lateral = isinstance(node, exp.Lateral)
        inner = node.this if isinstance(node, exp.Lateral) else node
        if isinstance(inner, exp.Table) and isinstance(inner.this, exp.Identifier):
            return self._table(inner, env)
        if isinstance(inner, exp.Subquery):
            within = env._replace(frames=(frame, *env.frames)) if lateral else env
            return self._derived(node, inner, within, frame, lateral)
        return self._call(node, frame, env)

    def alias(self, wanted: str) -> str:
        """An alias that nothing else in the statement has."""
        made, number = wanted, 1
        while made in self.taken:
            number += 1
            made = f"{wanted}_{number}"
        self.taken.add(made)
        return made

    def _table(self, node: exp.Table, env: Env) -> Source:
        self._plain_table(node)
        name = node.name
        if not node.db and name in env.recursion:
            return Source(self.alias(node.alias or name), env.recursion[name], node, recursion=name)
        if not node.db and name in env.common:
            return self._common(node, env.common[name])
        table = self.tables.get(f"{node.db or 'public'}.{name}")
        if table is None:
            known = ", ".join(sorted(self.tables))
            refuse(self.view, node, "no such table", f"choose from {known}")
        if renamed(node):
            refuse(self.view, node, "a table's columns cannot be renamed here",
                   "rename them with AS")  # fmt: skip
        alias = self.alias(node.alias or name)
        return Source(alias, tuple(item.name for item in table.columns), node, table=table)

    def _plain_table(self, node: exp.Table) -> None:
        reasons = {
            "sample": "TABLESAMPLE takes other rows each time",
            "only": "ONLY is not known here",
            "pivots": "PIVOT is not PostgreSQL",
        }
        for part, reason in reasons.items():
            if node.args.get(part):
                refuse(self.view, node, reason, "leave it out")
        if node.catalog:
            refuse(self.view, node, "a database cannot be named in a view", "leave it out")

    def _common(self, node: exp.Table, common: Common) -> Source:
        cte = common.node
        query_node = cte.this
        names = [part.name for part in cte.args["alias"].args.get("columns") or []]
        env = Env(common.frames, common.within, {})
        made: Query
        if common.recursive and _names(query_node, cte.alias):
            made = self._recursion(cte, query_node, names, env)
        else:
            made = self.query(query_node, env)
        columns = (*names, *made.columns[len(names) :])
        columns = (*renamed(node), *columns[len(renamed(node)) :])
        return Source(self.alias(node.alias or node.name), columns, node, query=made)

    def _recursion(self, cte: exp.CTE, node: exp.Expr, names: list[str], env: Env) -> Recursion:
        if not isinstance(node, exp.Union) or ordering(node) or limits(node):
            refuse(self.view, cte, "a recursive query is a UNION of where it begins and its step")
        inner = self._with(node, env)
        anchor = self.query(node.this, inner)
        columns = (*names, *anchor.columns[len(names) :])
        step = self.query(
            node.expression, inner._replace(recursion={**inner.recursion, cte.alias: columns})
        )
        return Recursion(cte.alias, columns, not node.args.get("distinct"), anchor, step, cte)

    def _derived(
        self, node: exp.Expr, inner: exp.Subquery, env: Env, frame: Frame, lateral: bool
    ) -> Source:
        made = self.query(inner.this, env)
        if ordering(inner) or limits(inner):
            refuse(self.view, inner, "ORDER BY or LIMIT of parentheses is not known here")
        names = renamed(node) or renamed(inner)
        columns = (*names, *made.columns[len(names) :])
        called = node.alias or inner.alias or "subquery"
        needs = free(made, self.subqueries) & {item.alias for item in frame.called.values()}
        return Source(self.alias(called), columns, node, query=made, lateral=lateral,
                      needs=frozenset(needs))  # fmt: skip

    def _call(self, node: exp.Expr, frame: Frame, env: Env) -> Source:
        within = env._replace(frames=(frame, *env.frames))
        call = calls.call_of(self.view, node)
        made = self.expression(calls.bare(call), within)
        called = calls.name_of(node, call)
        columns, ordinality = calls.columns(node, call)
        here = {item.alias for item in frame.called.values()}
        return Source(
            self.alias(called),
            columns,
            node,
            call=made,
            ordinality=ordinality,
            lateral=True,
            needs=reads(made) & here,
        )


def _names(node: exp.Expr, name: str) -> bool:
    return any(table.name == name and not table.db for table in node.find_all(exp.Table))
