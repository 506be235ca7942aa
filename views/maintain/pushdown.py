"""The view's rows of some keys: its own SQL, the keys pushed down as far as they pass. Pure.

PostgreSQL brings ``k = ANY(array)`` below GROUP BY and PARTITION BY itself, but not along an
equality to what it is joined with: a derived table would be made whole. That is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from views.maintain.touched.paths import certain
from views.maintain.touched.pushdown_columns import carried, column_passes, of_rows, passes, stages
from views.maintain.tree.from_clause import outer_sides
from views.maintain.tree.origin import same_type
from views.maintain.tree.render import KEYS, Writer, quoted
from views.maintain.tree.tree import (
    Block,
    Joined,
    Query,
    Recursion,
    SetOperation,
    Source,
    Statement,
    aliases,
    joins,
)

Column = tuple[str, str]
Equal = tuple[exp.Column, exp.Column]


class Values(NamedTuple):
    """What a column will be asked to be among: a column of a relation, both as SQL."""

    column: str
    relation: str

    @property
    def array(self) -> str:
        return f"ARRAY(SELECT {self.column} FROM {self.relation})"


class Settled(NamedTuple):
    """The positions whose columns are asked for in a table itself, so that no row has others;
    ``together``: all positions that were to be, and in one table."""

    positions: frozenset[int] = frozenset()
    together: bool = False


def rows_of_keys(
    statement: Statement,
    read: Mapping[str, Sequence[str]],
    key: tuple[str, ...],
    positions: Sequence[int],
) -> str:
    """SELECT of the view's columns for the keys in ``KEYS``."""
    writer = Writer(statement, read)
    pairs = list(zip(key, positions, strict=True))
    bounds = {place: Values(quoted(name), KEYS) for name, place in pairs}
    settled = push(writer, statement.query, bounds)
    shown = ", ".join(f"v.{quoted(name)}" for name in statement.query.columns)
    conditions = [
        f"v.{quoted(name)} = ANY({bounds[place].array})"
        for name, place in pairs
        if place not in settled.positions
    ]
    if len(key) > 1 and not settled.together:
        same = " AND ".join(f"k.{quoted(name)} = v.{quoted(name)}" for name in key)
        conditions.append(f"EXISTS (SELECT FROM {KEYS} AS k WHERE {same})")
    whole = writer.query(statement.query)
    asked = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {shown} FROM ({whole}) AS v{asked}"


def push(writer: Writer, query: Query, bounds: Mapping[int, Values]) -> Settled:
    """Ask the rows of FROM what the result will be asked, where that is the same.

    ``bounds`` are by the position of the column that will be asked to be among them.
    """
    if isinstance(query, SetOperation):
        if query.limit:
            return Settled()
        left, right = push(writer, query.left, bounds), push(writer, query.right, bounds)
        return Settled(left.positions & right.positions, left.together and right.together)
    if isinstance(query, Recursion):
        roots = carried(query)
        push(writer, query.anchor, {at: of for at, of in bounds.items() if at in roots})
        return Settled()
    return Settled() if query.limit else _push_block(writer, query, bounds)


def _push_block(writer: Writer, block: Block, bounds: Mapping[int, Values]) -> Settled:
    bound: dict[Column, Values] = {}
    extra = writer.extra.setdefault(id(block), [])
    rest: dict[int, Values] = {}
    for position, values in bounds.items():
        node = block.outputs[position].node
        if passes(block, node) and not isinstance(node, exp.Null):
            bound |= dict.fromkeys(_alone(block, node), values)
        else:
            rest[position] = values
    if not bound and rest:
        extra += _by_prefixes(writer, block, rest)
    settled = _settled(block, bounds, _along(writer, block, bound))
    for position, values in bounds.items():
        if position not in rest and position not in settled.positions:
            extra.append(f"({writer.node(block.outputs[position].node)}) = ANY({values.array})")
    return settled


def _settled(
    block: Block, bounds: Mapping[int, Values], asked: Mapping[str, frozenset[str]]
) -> Settled:
    """``asked`` are the columns of each source that are asked for in it."""
    nodes = {at: block.outputs[at].node for at in bounds}
    found = {
        at: node.table
        for at, node in nodes.items()
        if isinstance(node, exp.Column) and node.name in asked.get(node.table, ())
        if passes(block, node)
    }
    together = len(found) == len(bounds) and len(set(found.values())) == 1
    return Settled(frozenset(found), together)


def _alone(block: Block, node: exp.Expr) -> list[Column]:
    """The columns that have to be among the values if an expression has."""
    if isinstance(node, exp.Column):
        return [(node.table, node.name)]
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "coalesce":
        return []
    parts = list(node.expressions)
    for join in joins(block.tree):
        for on in join.on:
            full = join.kind == "full" and isinstance(on, exp.EQ)
            if full and parts in ([on.this, on.expression], [on.expression, on.this]):
                return [(part.table, part.name) for part in parts]
    return []


def _by_prefixes(writer: Writer, block: Block, rest: Mapping[int, Values]) -> list[str]:
    """Whole partitions, and of DISTINCT ON whole groups, in which a row of the keys is."""
    nodes = {position: block.outputs[position].node for position in rest}
    if block.group is not None or not all(of_rows(node) for node in nodes.values()):
        return []
    found = []
    for prefix in stages(block):
        parts = [part for part in prefix if of_rows(part)]
        if not parts:
            return []
        asked = [f"({writer.node(nodes[at])}) = ANY({rest[at].array})" for at in nodes]
        kept = Block(block.sources, block.tree, list(block.where), [])
        found.append(_among(writer, kept, parts, asked))
    return [" OR ".join(found)] if found else []


def _among(writer: Writer, block: Block, parts: Sequence[exp.Expr], asked: list[str]) -> str:
    """Whether a row has the prefix of one of the rows that are asked for."""
    assert block.tree is not None
    items = writer.tree(block.tree, block.sources)
    conditions = " AND ".join([*(f"({writer.node(node)})" for node in block.where), *asked])
    made = []
    for part in parts:
        sql = f"({writer.node(part)})"
        made.append(
            f"({sql} = ANY(ARRAY(SELECT {sql} FROM {items} WHERE {conditions})) OR ({sql} IS NULL "
            f"AND EXISTS (SELECT FROM {items} WHERE {conditions} AND {sql} IS NULL)))"
        )
    return f"({' AND '.join(made)})"


def _along(writer: Writer, block: Block, bound: dict[Column, Values]) -> dict[str, frozenset[str]]:
    """To what is joined with bound columns by an equality. The columns of each source that are
    asked for in it, where every row of the result has a row of it."""
    asked: dict[str, frozenset[str]] = {}
    if not bound or block.tree is None:
        return asked
    outer = outer_sides(block.tree)
    for source in block.sources.values():
        found: dict[str, Values] = {}
        for own, other in _equalities(block, source):
            if not same_type(block.sources, own, other):
                continue
            values = _values(writer, block, bound, other)
            if values is not None:
                found.setdefault(own.name, values)
        found |= {name: of for (alias, name), of in bound.items() if alias == source.alias}
        restricted = _restrict(writer, source, found)
        if source.alias not in outer:
            asked[source.alias] = restricted
    return asked


def _restrict(writer: Writer, source: Source, found: Mapping[str, Values]) -> frozenset[str]:
    """Ask a source for what was found; the columns that no row of it has others of."""
    if source.query is not None and found:
        places = {source.columns.index(name): of for name, of in found.items()}
        kept = {at: of for at, of in places.items() if column_passes(source.query, at)}
        if not source.lateral:
            settled = push(writer, source.query, kept)
            if settled.together or len(found) == 1:
                return frozenset(source.columns[at] for at in settled.positions)
    elif source.table is not None and found and source.alias not in writer.replaced:
        made = writer.table(source.table, writer.place)
        writer.replaced[source.alias] = f"{made[:-1]} WHERE {_conditions(found)})"
        return frozenset(found)
    return frozenset()


def _conditions(found: Mapping[str, Values]) -> str:
    """Columns are among their values; those of one relation as it has them in its rows."""
    of: dict[str, list[str]] = {}
    for name, values in found.items():
        of.setdefault(values.relation, []).append(name)
    made = []
    for relation, names in of.items():
        if len(names) == 1:
            made.append(f"{quoted(names[0])} = ANY({found[names[0]].array})")
        else:
            ours = ", ".join(quoted(name) for name in names)
            theirs = ", ".join(found[name].column for name in names)
            made.append(f"({ours}) IN (SELECT {theirs} FROM {relation})")
    return " AND ".join(made)


def _values(
    writer: Writer, block: Block, bound: Mapping[Column, Values], column: exp.Column
) -> Values | None:
    """All values of a column in the rows that are asked for."""
    if (known := bound.get((column.table, column.name))) is not None:
        return known
    source = block.sources[column.table]
    asked = {name: of for (alias, name), of in bound.items() if alias == source.alias}
    if source.table is None or not asked:
        return None
    table = writer.table(source.table, writer.place)
    # Named by its alias: columns of two rows of one table are not asked of one of them.
    called = quoted(source.alias)
    return Values(quoted(column.name), f"{table} AS {called} WHERE {_conditions(asked)}")


def _equalities(block: Block, source: Source) -> Iterator[Equal]:
    """Columns of a source, with columns that they have to equal wherever its row counts."""
    conditions = [*block.where, *certain(block.tree)]
    for join in joins(block.tree):
        if join.kind == "left" and source.alias in aliases(join.right):
            conditions += _inner_of(join, source.alias)
    for node in conditions:
        if not isinstance(node, exp.EQ):
            continue
        for own, other in ((node.this, node.expression), (node.expression, node.this)):
            if not (isinstance(own, exp.Column) and isinstance(other, exp.Column)):
                continue
            here = own.table == source.alias and other.table in block.sources
            if here and other.table != source.alias:
                yield own, other


def _inner_of(join: Joined, alias: str) -> list[exp.Expr]:
    """The conditions of a LEFT JOIN that hold for a source in it, if it is there for sure."""
    there = set(aliases(join.right)) - outer_sides(join.right)
    return list(join.on) if alias in there else []
