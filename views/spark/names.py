"""What the columns of a view over several tables mean: every one gets its table's alias. Pure.

USING becomes ON, ``*`` the columns it stands for, GROUP BY 1 and GROUP BY of an output's name the
expression that is meant, each as PostgreSQL takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from sqlglot import exp

from views.parse.definition import ViewDefinition
from views.parse.statement import Occurrence, refuse
from views.table_versions import TableVersion


def qualify(definition: ViewDefinition, tables: Mapping[str, TableVersion]) -> exp.Select:
    """The statement with all its names settled. ``tables`` are the occurrences by alias.

    Raises ``ViewError`` for a name that is unknown, ambiguous or not to be seen where it stands.
    """
    statement = definition.statement.copy()
    for nested in statement.find_all(exp.Subquery, exp.Query):
        if nested is not statement:
            refuse(
                definition.name, nested, "subqueries are not supported in views", "join the table"
            )
    names = _Names(definition.name, tables, definition.occurrences)
    for join, occurrence in zip(
        statement.args.get("joins") or [], definition.occurrences[1:], strict=True
    ):
        names.join(join, occurrence.alias)
    statement.set("expressions", list(names.outputs(statement.expressions)))
    for part in ("where", "having"):
        if statement.args.get(part) is not None:
            names.settle(statement.args[part])
    if statement.args.get("group") is not None:
        names.group(statement.args["group"], statement.expressions)
    return statement


class _Names:
    """The names that are to be seen, growing from one table of FROM to all of them."""

    def __init__(
        self,
        view: str,
        tables: Mapping[str, TableVersion],
        occurrences: tuple[Occurrence, ...],
    ) -> None:
        self._view, self._tables = view, tables
        self._seen = [occurrences[0].alias]
        self._merged: dict[str, str] = {}  # by USING: the column's name to the first alias
        self._hidden: set[tuple[str, str]] = set()
        self._called = {o.table: o.alias for o in occurrences if o.table != o.alias}

    def join(self, join: exp.Join, alias: str) -> None:
        """Bring a table in and settle its ON, which sees it and those before it."""
        using = join.args.get("using") or []
        pairs = [self._merge(column, alias) for column in using]
        self._seen.append(alias)
        if pairs:
            join.set("using", None)
            join.set("on", exp.and_(*pairs, copy=False))
        else:
            self.settle(join.args["on"])

    def _merge(self, name: exp.Expr, alias: str) -> exp.Expr:
        column = name.name
        left = next(iter(self._owners(column)), None)
        right = self._tables[alias].column(column)
        if left is None or right is None:
            missing = "the tables before" if left is None else self._tables[alias].name
            refuse(self._view, name, f"{missing} have no such column: it cannot be in USING")
        if len(self._owners(column)) > 1:
            self._ambiguous(name, column)
        found = self._tables[left].column(column)
        if found is None or found.type != right.type:
            was = "" if found is None else f"{found.type} and "
            refuse(self._view, name, f"is {was}{right.type} in the two tables", "write ON")
        self._merged[column] = left
        self._hidden.add((alias, column))
        return exp.EQ(this=_column(left, name), expression=_column(alias, name))

    def _owners(self, column: str) -> list[str]:
        """The aliases that a name without one may mean."""
        if column in self._merged:
            owner = self._merged[column]
            others = [a for a in self._having(column) if a != owner]
            return [owner, *others]
        return self._having(column)

    def _having(self, column: str) -> list[str]:
        return [
            alias
            for alias in self._seen
            if self._tables[alias].column(column) is not None
            and (alias, column) not in self._hidden
        ]

    def settle(self, root: exp.Expr) -> None:
        """Give every column below ``root`` its alias."""
        for node in list(root.find_all(exp.Column)):
            self._settle(node)

    def _settle(self, node: exp.Column) -> None:
        if isinstance(node.this, exp.Star):
            refuse(self._view, node, "* has no place here", "name the columns")
        if node.args.get("db") is not None:
            refuse(self._view, node, "a column is named by its table's alias", "alias.column")
        if node.table:
            self._check(node)
            return
        owners = self._owners(node.name)
        if len(owners) > 1:
            self._ambiguous(node, node.name)
        if not owners:
            self._unknown(node)
        node.set("table", exp.to_identifier(owners[0]))

    def _check(self, node: exp.Column) -> None:
        alias = node.table
        if alias not in self._tables:
            known = ", ".join(self._tables)
            called = self._called.get(alias)
            hint = f"write {called!r}" if called else f"choose from {known}"
            refuse(self._view, node, f"no table {alias!r} here", hint)
        if alias not in self._seen:
            refuse(self._view, node, f"{alias!r} is joined only later", "join it before")
        table = self._tables[alias]
        if table.column(node.name) is None:
            refuse(self._view, node, table.lacking(node.name), f"choose from {table.describe()}")

    def _ambiguous(self, node: exp.Expr, column: str) -> NoReturn:
        choices = [f"{alias}.{column}" for alias in self._owners(column)]
        either = " or ".join(choices)
        refuse(self._view, node, "more than one table has such a column", f"write {either}")

    def _unknown(self, node: exp.Column) -> NoReturn:
        if node.name in self._tables:
            refuse(self._view, node, "a whole row is not a value here", "name its columns")
        for alias, table in self._tables.items():
            if table.column(node.name) is not None and alias not in self._seen:
                refuse(self._view, node, f"{alias!r} is joined only later", "join it before")
        for alias in self._seen:
            if node.name in self._tables[alias].replaced:
                refuse(self._view, node, self._tables[alias].lacking(node.name))
        described = "; ".join(f"{a}: {self._tables[a].describe()}" for a in self._seen)
        refuse(self._view, node, "no table has such a column", f"choose from {described}")

    def outputs(self, items: list[exp.Expr]) -> Iterator[exp.Expr]:
        """The items of SELECT, stars spelled out."""
        for item in items:
            node = item.this if isinstance(item, exp.Alias) else item
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                yield from self._star(node)
                continue
            self.settle(item)
            yield item

    def _star(self, node: exp.Expr) -> Iterator[exp.Expr]:
        if isinstance(node, exp.Star) and any(node.args.values()):
            refuse(self._view, node, "* takes no modifiers in PostgreSQL")
        qualifier = node.args.get("table")
        if qualifier is not None and qualifier.name not in self._tables:
            refuse(self._view, node, f"no table {qualifier.name!r} here")
        aliases = self._seen if qualifier is None else [qualifier.name]
        for alias in aliases:
            for lost in self._tables[alias].replaced:
                refuse(self._view, node, f"{lost!r}: {self._tables[alias].lacking(lost)}")
            for column in self._tables[alias].columns:
                if qualifier is None and (alias, column.name) in self._hidden:
                    continue
                name = exp.to_identifier(column.name)
                name.meta.update(_place(node))
                yield _column(alias, name)

    def group(self, group: exp.Expr, outputs: list[exp.Expr]) -> None:
        """GROUP BY: a column's name first, then an output's; a number is an output's place."""
        items = [self._grouped(item, outputs) for item in group.expressions]
        group.set("expressions", items)

    def _grouped(self, item: exp.Expr, outputs: list[exp.Expr]) -> exp.Expr:
        if isinstance(item, exp.Literal) and item.is_int and not item.is_string:
            position = int(item.this)
            if not 1 <= position <= len(outputs):
                refuse(self._view, item, f"there is no column {position} in SELECT")
            return _meant(outputs[position - 1])
        if isinstance(item, exp.Column) and not item.table and not self._having(item.name):
            named = [o for o in outputs if isinstance(o, exp.Alias) and o.alias == item.name]
            if named:
                return _meant(named[0])
        self.settle(item)
        return item


def _meant(output: exp.Expr) -> exp.Expr:
    return (output.this if isinstance(output, exp.Alias) else output).copy()


def _place(node: exp.Expr) -> dict[str, Any]:
    """Where the node stands, for one that takes its place."""
    found = [part.meta for part in node.walk() if "line" in part.meta]
    return dict(found[0]) if found else {}


def _column(alias: str, name: exp.Expr) -> exp.Column:
    identifier = exp.to_identifier(name.name)
    identifier.meta.update(_place(name))
    return exp.Column(this=identifier, table=exp.to_identifier(alias))
