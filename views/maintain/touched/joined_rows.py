"""The way from the changed rows of one source to expressions over a FROM, as SQL. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from views.maintain.touched.occurrences import Step
from views.maintain.touched.paths import Level, NoWayError, Route, Search
from views.maintain.touched.pushdown_columns import column_passes
from views.maintain.touched.search_plan import Find, Finder, Wanted
from views.maintain.tree.correlated_sources import columns, queries_in
from views.maintain.tree.origin import same_type
from views.maintain.tree.render import BOTH, CHANGED, quoted, where
from views.maintain.tree.tree import Recursion, Source, joins


def joined(
    finder: Finder,
    levels: Sequence[Level],
    source: Source,
    steps: tuple[Step, ...],
    wanted: Wanted,
    find: Find,
    inside: frozenset[str] | None,
) -> str:
    """SELECT DISTINCT of the expressions; see ``Finder.joined``."""
    usable = None
    if source.query is not None:
        places = enumerate(source.columns)
        usable = frozenset(name for at, name in places if column_passes(source.query, at))
    subqueries = finder.statement.subqueries
    search = Search(levels, source.alias, usable, subqueries)
    way = _from_changed(wanted, search, source)
    route = search.route([node for _, node in way])
    needed = _needed(finder, route, source, way)
    if usable is not None and not needed <= usable and find is not Find.BOTH:
        find, search = Find.ALL, Search(levels, source.alias, None, subqueries)
        way = _from_changed(wanted, search, source)
        route = search.route([node for _, node in way])
        needed = _needed(finder, route, source, way)
    others = [item for item in route.sources.values() if item.alias != source.alias]
    if find is Find.SOME and source.query is not None and any(item.query for item in others):
        find = Find.ALL
    changed = _changed(finder, source, steps, needed, find)
    return _written(finder, route, changed, source, way, find, inside)


def _written(
    finder: Finder,
    route: Route,
    changed: str,
    source: Source,
    wanted: Wanted,
    find: Find,
    inside: frozenset[str] | None,
) -> str:
    writer = finder.writer()
    writer.replaced[source.alias] = changed
    for alias, item in route.sources.items():
        both = find is Find.BOTH and (inside is None or alias in inside)
        if alias == source.alias:
            continue
        if both and item.table is not None:
            writer.replaced[alias] = writer.table(item.table, BOTH)
            finder.both_states.add(item.table.table)
        elif both and (item.query is not None or item.recursion):
            raise NoWayError(f"{alias} would have to be known in two states at once")
        elif isinstance(item.query, Recursion) and item.columns == item.query.columns:
            # it may read the same occurrence, of which all rows count there
            writer.replaced[alias] = f"({finder.writer().query(item.query)})"
    shown = ", ".join(f"{writer.node(node)} AS {quoted(name)}" for name, node in wanted)
    items = ", ".join(writer.tree(tree, route.sources) for tree in route.trees)
    conditions = where([writer.node(node) for node in route.where])
    return f"SELECT DISTINCT {shown} FROM {items} {conditions}".rstrip()


def _changed(
    finder: Finder,
    source: Source,
    steps: tuple[Step, ...],
    read: frozenset[str],
    find: Find,
) -> str:
    """The changed rows of a source, with the columns that the way reads."""
    if source.table is not None:
        finder.beside = finder.beside or find is Find.BOTH
        names = ", ".join(quoted(name) for name in finder.columns[source.table.table])
        return f"(SELECT {names} FROM {CHANGED})"
    assert source.query is not None
    needed = [(name, place) for place, name in enumerate(source.columns) if name in read]
    if not needed:
        raise NoWayError(f"nothing says which rows belong to a change of {source.alias}")
    parts = finder.query(source.query, steps, needed, find)
    return f"({' UNION '.join(f'({part})' for part in parts)})"


def _needed(finder: Finder, route: Route, source: Source, wanted: Wanted) -> frozenset[str]:
    """The columns of the changed rows that the way reads, its functions and LATERAL too."""
    nodes = [node for _, node in wanted] + route.where
    nodes += [node for tree in route.trees for join in joins(tree) for node in join.on]
    subqueries = finder.statement.subqueries
    found = set(_read(nodes, source))
    for node in nodes:
        for query in queries_in(node, subqueries):
            found |= _read(columns(query, subqueries), source)
    for item in route.sources.values():
        if item.alias == source.alias:
            continue
        if item.call is not None:
            found |= _read([item.call], source)
        if item.query is not None:
            found |= _read(columns(item.query, subqueries), source)
    return frozenset(found)


def _read(nodes: Iterable[exp.Expr], source: Source) -> frozenset[str]:
    """The columns of a source that expressions read."""
    return frozenset(
        part.name
        for node in nodes
        for part in node.find_all(exp.Column)
        if part.table == source.alias
    )


def _from_changed(wanted: Wanted, search: Search, source: Source) -> Wanted:
    """The expressions read from the changed rows where a condition says that these have the same:
    a row that is not there then gives a key of no row, which does no harm."""
    equal = _equal_columns(search, source)

    def made(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return equal.get((node.table, node.name), node).copy()
        return node

    return [(name, node.copy().transform(made)) for name, node in wanted]


def _equal_columns(search: Search, source: Source) -> dict[tuple[str, str], exp.Column]:
    """Columns of other sources that equal one of ``source``, and are of its type."""
    known = {
        (source.alias, name): None
        for name in source.columns
        if search.usable is None or name in search.usable
    }
    found: dict[tuple[str, str], exp.Column] = {}
    conditions = search.conditions()
    grown = True
    while grown:
        grown = False
        for node in conditions:
            if not isinstance(node, exp.EQ):
                continue
            for one, other in ((node.this, node.expression), (node.expression, node.this)):
                if not (isinstance(one, exp.Column) and isinstance(other, exp.Column)):
                    continue
                here, there = (one.table, one.name), (other.table, other.name)
                fresh = there not in known and there not in found
                if (
                    fresh
                    and (here in known or here in found)
                    and same_type(search.sources, one, other)
                ):
                    found[there] = found.get(here, one)
                    grown = True
    return found
