"""The view's rows of some keys: its own SQL, the keys pushed down as far as they pass. Pure.

PostgreSQL brings ``k = ANY(array)`` below GROUP BY and PARTITION BY itself, but not along an
equality to what it is joined with: a derived table would be made whole. That is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from views.maintain.from_clause import outer_sides
from views.maintain.origin import same_type
from views.maintain.passing import carried, column_passes, of_rows, passes, stages
from views.maintain.paths import certain
from views.maintain.render import KEYS, Writer, quoted
from views.maintain.tree import (
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


def rows_of_keys(
    statement: Statement,
    read: Mapping[str, Sequence[str]],
    key: tuple[str, ...],
    positions: Sequence[int],
) -> str:
    """SELECT of the view's columns for the keys in ``KEYS``."""
    writer = Writer(statement, read)
    pairs = list(zip(key, positions, strict=True))
    bounds = {place: f"ARRAY(SELECT {quoted(name)} FROM {KEYS})" for name, place in pairs}
    push(writer, statement.query, bounds)
    shown = ", ".join(f"v.{quoted(name)}" for name in statement.query.columns)
    conditions = [f"v.{quoted(name)} = ANY({bounds[place]})" for name, place in pairs]
    if len(key) > 1:
        same = " AND ".join(f"k.{quoted(name)} = v.{quoted(name)}" for name in key)
        conditions.append(f"EXISTS (SELECT FROM {KEYS} AS k WHERE {same})")
    whole = writer.query(statement.query)
    return f"SELECT {shown} FROM ({whole}) AS v WHERE {' AND '.join(conditions)}"


def push(writer: Writer, query: Query, bounds: Mapping[int, str]) -> None:
    """Ask the rows of FROM what the result will be asked, where that is the same.

    ``bounds`` are arrays by the position of a column that will be asked to be among them.
    """
    if isinstance(query, SetOperation):
        if not query.limit:
            push(writer, query.left, bounds)
            push(writer, query.right, bounds)
    elif isinstance(query, Recursion):
        roots = carried(query)
        push(writer, query.anchor, {at: sql for at, sql in bounds.items() if at in roots})
    elif not query.limit:
        _push_block(writer, query, bounds)


def _push_block(writer: Writer, block: Block, bounds: Mapping[int, str]) -> None:
    bound: dict[Column, str] = {}
    extra = writer.extra.setdefault(id(block), [])
    rest: dict[int, str] = {}
    for position, values in bounds.items():
        node = block.outputs[position].node
        if passes(block, node) and not isinstance(node, exp.Null):
            extra.append(f"({writer.node(node)}) = ANY({values})")
            bound |= dict.fromkeys(_alone(block, node), values)
        else:
            rest[position] = values
    if not bound and rest:
        extra += _by_prefixes(writer, block, rest)
    _along(writer, block, bound)


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


def _by_prefixes(writer: Writer, block: Block, rest: Mapping[int, str]) -> list[str]:
    """Whole partitions, and of DISTINCT ON whole groups, in which a row of the keys is."""
    nodes = {position: block.outputs[position].node for position in rest}
    if block.group is not None or not all(of_rows(node) for node in nodes.values()):
        return []
    found = []
    for prefix in stages(block):
        parts = [part for part in prefix if of_rows(part)]
        if not parts:
            return []
        asked = [f"({writer.node(nodes[at])}) = ANY({rest[at]})" for at in nodes]
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


def _along(writer: Writer, block: Block, bound: dict[Column, str]) -> None:
    """To what is joined with bound columns by an equality."""
    if not bound or block.tree is None:
        return
    for source in block.sources.values():
        found: dict[str, str] = {}
        for own, other in _equalities(block, source):
            if not same_type(block.sources, own, other):
                continue
            values = _values(writer, block, bound, other)
            if values is not None:
                found.setdefault(own.name, values)
        found |= {name: sql for (alias, name), sql in bound.items() if alias == source.alias}
        _restrict(writer, source, found)


def _restrict(writer: Writer, source: Source, found: Mapping[str, str]) -> None:
    if source.query is not None and found:
        places = {source.columns.index(name): sql for name, sql in found.items()}
        kept = {at: sql for at, sql in places.items() if column_passes(source.query, at)}
        if not source.lateral:
            push(writer, source.query, kept)
    elif source.table is not None and found and source.alias not in writer.replaced:
        conditions = " AND ".join(f"{quoted(name)} = ANY({sql})" for name, sql in found.items())
        made = writer.table(source.table, writer.place)
        writer.replaced[source.alias] = f"{made[:-1]} WHERE {conditions})"


def _values(
    writer: Writer, block: Block, bound: Mapping[Column, str], column: exp.Column
) -> str | None:
    """An array that holds all values of a column in the rows that are asked for."""
    if (known := bound.get((column.table, column.name))) is not None:
        return known
    source = block.sources[column.table]
    asked = {name: sql for (alias, name), sql in bound.items() if alias == source.alias}
    if source.table is None or not asked:
        return None
    conditions = " AND ".join(f"{quoted(name)} = ANY({sql})" for name, sql in asked.items())
    table = writer.table(source.table, writer.place)
    return f"ARRAY(SELECT {quoted(column.name)} FROM {table} AS t WHERE {conditions})"


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
