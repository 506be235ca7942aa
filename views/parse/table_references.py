"""Where a view's SQL reads tables, in any SELECT; and the SQL with other relations there. Pure.

Only names are looked at: which of them are tables and which are common table expressions. Nothing
is planned, and the text stays as it was written but for the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeGuard

from sqlglot import Token, TokenType, exp

from cdc.errors import ViewError
from views.maintain.tree.parser import Verbatim
from views.parse.depth import bounded
from views.parse.single_statement import bounds, single_statement

RelationOf = Callable[[str, str], str]
"""From schema and table to what is read in its place: a table's name as SQL, or a SELECT in
parentheses."""

_DEFAULT_SCHEMA: Final = "public"


class TableName(NamedTuple):
    schema: str
    table: str

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class _Edit:
    """``text`` in place of what stands from ``begin`` to before ``end``."""

    begin: int
    end: int
    text: str


@bounded
@lru_cache(maxsize=1024)
def tables_read(view: str, sql: str) -> tuple[TableName, ...]:
    """The tables that the SQL of a view reads, each once, in the order of the text.

    Parsed once: whoever keeps views asks again every second. A table that is not qualified is in
    ``public``. Raises ``ViewError`` for SQL that does not parse, and for what is not one SELECT.
    """
    statement = _statement(view, sql)
    found = sorted(_tables(statement, frozenset()), key=_begin)
    return tuple(dict.fromkeys(_name(table) for table in found))


@bounded
def reading(view: str, sql: str, relation: RelationOf) -> str:
    """The SQL as it was written, as a subquery may have it, with ``relation`` in place of each
    table. Raises ``ViewError`` as ``tables_read`` does."""
    statement = _statement(view, sql)
    tokens = Verbatim().tokenize(sql)
    edits = []
    selected = set()
    for table in _tables(statement, frozenset()):
        name = _name(table)
        text = relation(*name)
        if text.startswith("("):
            selected.add(name)
        edits.append(_edit(table, text, tokens))
    edits += _prefixes(statement, selected)
    begin, end = bounds(tokens, sql)
    made = sql[:end]
    for edit in sorted(edits, key=lambda one: one.begin, reverse=True):
        made = made[: edit.begin] + edit.text + made[edit.end :]
    return made[begin:]


def _statement(view: str, sql: str) -> exp.Expr:
    statement = single_statement(view, sql, Verbatim)
    if not isinstance(statement, exp.Query):
        raise ViewError(f"views.{view}.sql: is not a SELECT", "write one SELECT")
    return statement


def _tables(node: exp.Expr, known: frozenset[str]) -> Iterator[exp.Table]:
    """The tables below a node; ``known`` are the common table expressions that it sees."""
    with_ = node.args.get("with_")
    if with_ is not None:
        names = [_folded(cte.args["alias"].this) for cte in with_.expressions]
        for number, cte in enumerate(with_.expressions):
            seen = names if with_.args.get("recursive") else names[:number]
            yield from _tables(cte.this, known | set(seen))
        known |= set(names)
    if _is_table(node, known):
        yield node
    for child in node.iter_expressions():
        if child is not with_:
            yield from _tables(child, known)


def _is_table(node: exp.Expr, known: frozenset[str]) -> TypeGuard[exp.Table]:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        return False  # a function stands there
    return node.args.get("db") is not None or _folded(node.this) not in known


def _name(table: exp.Table) -> TableName:
    schema = table.args.get("db")
    return TableName(_folded(schema) if schema else _DEFAULT_SCHEMA, _folded(table.this))


def _folded(name: exp.Identifier) -> str:
    return str(name.this) if name.args.get("quoted") else str(name.this).lower()


def _begin(table: exp.Table) -> int:
    """Where the table's name begins in the SQL."""
    first = table.args.get("catalog") or table.args.get("db") or table.this
    return int(first.meta["start"])


def _edit(table: exp.Table, text: str, tokens: list[Token]) -> _Edit:
    """The table's name, with the words about its descendants, becomes ``text``."""
    begin, end = _begin(table), int(table.this.meta["end"]) + 1
    at = next(n for n, token in enumerate(tokens) if token.start == begin)
    last = next(n for n, token in enumerate(tokens) if token.end + 1 == end)
    if at and tokens[at - 1].text.upper() == "ONLY":
        at -= 1
    if at and tokens[at - 1].text.upper() == "TABLE":
        at -= 1
        text = f"select * from {text}"
    if last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.STAR:
        last += 1
    if text.endswith(")") and not table.alias:
        text += f" as {exp.to_identifier(_name(table).table, quoted=True).sql('postgres')}"
    return _Edit(tokens[at].start, tokens[last].end + 1, text)


def _prefixes(statement: exp.Expr, selected: set[TableName]) -> Iterator[_Edit]:
    """``schema.table.column`` loses its schema where a SELECT stands for the table."""
    for column in statement.find_all(exp.Column):
        schema, table = column.args.get("db"), column.args.get("table")
        if schema and table and TableName(_folded(schema), _folded(table)) in selected:
            yield _Edit(int(schema.meta["start"]), int(table.meta["start"]), "")
