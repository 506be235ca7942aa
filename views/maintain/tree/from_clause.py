"""FROM resolved: its sources under unique aliases, its tree of joins, the names it shows. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from views.maintain.tree.errors import refuse
from views.maintain.tree.tree import Joined, Leaf, Source, Tree, aliases, conjuncts


@dataclass(slots=True)
class Shown:
    """A column that FROM shows: its name, and the expression it stands for."""

    name: str
    node: exp.Expr
    source: str


@dataclass(slots=True)
class Frame:
    """What names mean at one level. ``called`` has the sources by the name the SQL gives them."""

    called: dict[str, Source] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    outputs: dict[str, exp.Expr] = field(default_factory=dict)


def column(alias: str, name: str, like: exp.Expr | None = None) -> exp.Column:
    """A qualified column, with the place of the node that it stands for."""
    this = exp.Identifier(this=name, quoted=True)
    if like is not None:
        found = next((part for part in like.walk() if "line" in part.meta), None)
        if found is not None:
            this.meta.update(found.meta)
    return exp.Column(this=this, table=exp.Identifier(this=alias, quoted=True))


def row(alias: str) -> exp.Column:
    """A source's whole row."""
    return exp.Column(this=exp.Star(), table=exp.Identifier(this=alias, quoted=True))


@dataclass(slots=True)
class FromClause:
    """Builds the sources and joins of one FROM."""

    view: str
    frame: Frame
    source: Callable[[exp.Expr, Frame], Source]
    expression: Callable[[exp.Expr, Frame], exp.Expr]
    sources: dict[str, Source] = field(default_factory=dict)

    def tree(self, items: list[exp.Expr]) -> Tree | None:
        """The tree of FROM's items; a comma binds less than JOIN does."""
        whole: tuple[Tree, list[Shown]] | None = None
        part: tuple[Tree, list[Shown]] | None = None
        for item in items:
            comma = not isinstance(item, exp.Join) or _comma(item)
            if comma:
                whole = self._crossed(whole, part)
                part = self._item(item.this if isinstance(item, exp.Join) else item)
            else:
                assert isinstance(item, exp.Join)
                assert part is not None
                part = self._joined(part, item)
            self.frame.shown = (whole[1] if whole else []) + part[1]
        whole = self._crossed(whole, part)
        if whole is None:
            return None
        self.frame.shown = whole[1]
        return whole[0]

    def _crossed(
        self, left: tuple[Tree, list[Shown]] | None, right: tuple[Tree, list[Shown]] | None
    ) -> tuple[Tree, list[Shown]] | None:
        if left is None or right is None:
            return left or right
        return Joined("inner", left[0], right[0], []), left[1] + right[1]

    def _item(self, node: exp.Expr) -> tuple[Tree, list[Shown]]:
        inner = node.this if isinstance(node, exp.Subquery) else None
        if isinstance(inner, exp.Table | exp.Subquery) and inner.args.get("joins"):
            return self._nested(node, inner)
        if isinstance(node, exp.Table | exp.Subquery) and node.args.get("joins"):
            return self._nested(None, node)
        made = self.source(node, self.frame)
        called = node.alias or made.node.alias or node.name or made.alias
        if called in self.frame.called:
            reason = f"two tables are called {called!r}"
            refuse(self.view, node, reason, "give one another alias: FROM table AS alias")
        self.frame.called[called] = made
        self.sources[made.alias] = made
        shown = [Shown(name, column(made.alias, name), made.alias) for name in made.columns]
        return Leaf(made.alias), shown

    def _nested(self, outer: exp.Expr | None, node: exp.Expr) -> tuple[Tree, list[Shown]]:
        if outer is not None and outer.args.get("alias") is not None:
            refuse(self.view, outer, "an alias of several tables is not known here", "leave it out")
        first = node.copy()
        first.set("joins", None)
        part = self._item(first)
        for join in node.args["joins"]:
            part = self._joined(part, join)
        return part

    def _joined(self, left: tuple[Tree, list[Shown]], join: exp.Join) -> tuple[Tree, list[Shown]]:
        side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
        method = str(join.method or "").upper()
        known = side in ("", "LEFT", "RIGHT", "FULL") and kind in ("", "INNER", "OUTER", "CROSS")
        if not known or method not in ("", "NATURAL"):
            refuse(self.view, join, "this kind of join is not known here")
        right = self._item(join.this)
        names = [part.name for part in join.args.get("using") or []]
        if method == "NATURAL":
            others = {shown.name for shown in right[1]}
            names = [shown.name for shown in left[1] if shown.name in others]
        on, merged = self._using(join, left, right, names, side)
        rest = [shown for shown in left[1] + right[1] if shown.name not in names]
        shown = merged + rest
        self.frame.shown = shown
        if join.args.get("on") is not None:
            on = conjuncts(self.expression(join.args["on"], self.frame))
        if side == "RIGHT":
            return Joined("left", right[0], left[0], on, tuple(names)), shown
        return Joined(side.lower() or "inner", left[0], right[0], on, tuple(names)), shown

    def _using(
        self,
        join: exp.Join,
        left: tuple[Tree, list[Shown]],
        right: tuple[Tree, list[Shown]],
        names: list[str],
        side: str,
    ) -> tuple[list[exp.Expr], list[Shown]]:
        on: list[exp.Expr] = []
        merged = []
        for name in names:
            one = self._only(join, left[1], name)
            other = self._only(join, right[1], name)
            on.append(exp.EQ(this=one.node.copy(), expression=other.node.copy()))
            node: Any = one.node if side in ("", "LEFT") else other.node
            if side == "FULL":
                parts = [one.node.copy(), other.node.copy()]
                node = exp.Anonymous(this="coalesce", expressions=parts)
            merged.append(Shown(name, node, ""))
        return on, merged

    def _only(self, join: exp.Join, shown: list[Shown], name: str) -> Shown:
        found = [item for item in shown if item.name == name]
        if len(found) != 1:
            many = "no column" if not found else "several columns"
            refuse(self.view, join, f"one side has {many} {name!r} to join by", "write ON")
        return found[0]


def _comma(join: exp.Join) -> bool:
    """A comma, or CROSS JOIN, which binds as JOIN does but is the same to what is left of it."""
    parts = ("side", "kind", "on", "using", "method")
    return not any(join.args.get(part) for part in parts)


def outer_sides(tree: Tree | None) -> frozenset[str]:
    """The sources that a row of FROM may lack."""
    if not isinstance(tree, Joined):
        return frozenset()
    found = outer_sides(tree.left) | outer_sides(tree.right)
    if tree.kind in ("left", "full"):
        found |= set(aliases(tree.right))
    if tree.kind == "full":
        found |= set(aliases(tree.left))
    return found
