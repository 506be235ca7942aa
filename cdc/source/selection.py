"""Which tables ``source.tables`` and ``source.exclude`` choose, and what speaks against them. Pure.

Patterns are those of ``cdc.routes.patterns``.

An exact name must be a table that can be captured. A pattern with a star passes over what
PostgreSQL itself does not publish (views, foreign, unlogged and temporary tables), as
``FOR ALL TABLES`` does. Partitions are left out when their root, or any ancestor, is chosen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cdc.errors import one_line
from cdc.routes.faults import route_faults
from cdc.routes.patterns import Pattern, parse_pattern
from cdc.routes.route import Route

_OTHER_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
    "I": "an index",
    "t": "a TOAST table",
}
_SYSTEM_SCHEMAS = re.compile(r"pg_.*|information_schema|headwater")
TABLES = "source.tables"
_CAPTURE_THE_TABLES = "Name the tables it reads."
_SET_LOGGED = "Run ALTER TABLE … SET LOGGED."


class Table(NamedTuple):
    """A row of ``pg_class``. ``kind`` is ``relkind``, ``persistence`` ``relpersistence``.

    ``identified``: UPDATE and DELETE have a replica identity to work with. ``ancestors`` are the
    OIDs of the partitioned tables above. ``unidentified_leaf`` names one partition below that has
    no identity of its own: a partition does not inherit ``REPLICA IDENTITY FULL``.
    """

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    replica_identity: str
    identified: bool
    ancestors: tuple[int, ...] = ()
    unidentified_leaf: str | None = None

    @property
    def label(self) -> str:
        """``schema.table``, for messages and for ``source.keys``."""
        return f"{self.schema}.{self.name}"


def with_unidentified_leaves(relations: Sequence[Table]) -> list[Table]:
    """Each partitioned table with the first of its partitions that lacks an identity. Pure."""
    found = dict[int, str]()
    for leaf in relations:
        if leaf.kind == "r" and not leaf.identified:
            for root in leaf.ancestors:
                found[root] = min(found.get(root, leaf.label), leaf.label)
    return [table._replace(unidentified_leaf=found.get(table.oid)) for table in relations]


def select_tables(
    source: str,
    tables: Sequence[str],
    exclude: Sequence[str],
    relations: Sequence[Table],
    setting: str = TABLES,
    routes: tuple[Route, ...] = (),
) -> tuple[list[Table], list[str]]:
    """The chosen tables by name, and every problem with the choice, one line each.

    ``source`` is the source's name, ``relations`` everything in ``pg_class``. ``tables`` stand in
    ``setting``; empty: who called gave them.
    """
    problems: list[str] = []
    said = f"{setting}: " if setting else ""
    wanted = _parse(said, tables, problems)
    unwanted = _parse("source.exclude: ", exclude, problems)
    chosen: dict[int, Table] = {}
    for pattern in wanted:
        matched = [
            r
            for r in relations
            if pattern.matches(r.schema, r.name)
            and not any(other.matches(r.schema, r.name) for other in unwanted)
        ]
        if pattern.exact:
            problems += [problem for r in matched if (problem := _not_a_table(r))]
        matched = [r for r in matched if not _not_a_table(r)]
        if not matched and not (pattern.exact and problems and pattern.text in problems[-1]):
            problems.append(_nothing(pattern, unwanted, relations, said))
        chosen |= {r.oid: r for r in matched}
    kept = [r for r in chosen.values() if not any(a in chosen for a in r.ancestors)]
    kept.sort(key=lambda r: (r.schema, r.name))
    problems += [problem for r in kept if (problem := _no_identity(r))]
    problems += [problem for r in kept for problem in _unsent(r, relations)]
    problems += route_faults(source, routes, [(r.schema, r.name) for r in kept])
    return kept, problems


def _parse(said: str, texts: Sequence[str], problems: list[str]) -> list[Pattern]:
    patterns = []
    for text in texts:
        try:
            patterns.append(parse_pattern(text))
        except ValueError as error:
            problems.append(f"{said}{error}")
    return patterns


def _not_a_table(relation: Table) -> str:
    """Why PostgreSQL does not publish it; ``""`` for a table that it does."""
    if _SYSTEM_SCHEMAS.fullmatch(relation.schema):
        return f"{relation.label} belongs to the system: it cannot be captured"
    if relation.kind not in "rp":
        kind = _OTHER_KINDS.get(relation.kind, "no table")
        return f"{relation.label} is {kind}, which has no changes in WAL. {_CAPTURE_THE_TABLES}"
    if relation.persistence == "u":
        return f"{relation.label} is unlogged, so its changes are not in WAL. {_SET_LOGGED}"
    if relation.persistence == "t":
        return f"{relation.label} is temporary, so its changes are not in WAL. Use a regular table."
    return ""


def _nothing(
    pattern: Pattern, unwanted: list[Pattern], relations: Sequence[Table], said: str
) -> str:
    hit = [r for r in relations if pattern.matches(r.schema, r.name) and not _not_a_table(r)]
    if hit and unwanted:
        return f"{said}{pattern.text} chooses nothing that source.exclude leaves"
    if not pattern.exact:
        return f"{said}{pattern.text} matches no table. Correct the pattern."
    names = [r.label for r in relations if not _not_a_table(r)]
    correct = f"create it, or correct {said[:-2]}" if said else "create it"
    return one_line(f"table {pattern.text} does not exist", meant(pattern.text, names) or correct)


def meant(label: str, known: Sequence[str]) -> str:
    """Which of the known tables, ``schema.table``, is probably meant, as a question; ``""`` if none
    is near. Pure."""
    near = difflib.get_close_matches(label.lower(), known, n=1, cutoff=0.75)
    return f"did you mean {near[0]}?" if near else ""


def _unsent(root: Table, relations: Sequence[Table]) -> Iterator[str]:
    """Partitions whose rows a snapshot would find and whose changes PostgreSQL does not send."""
    for leaf in relations:
        if root.oid not in leaf.ancestors or (leaf.kind != "f" and leaf.persistence == "p"):
            continue
        what = f"{leaf.label} (a partition of {root.label})"
        if leaf.kind == "f":
            yield f"{what} is a foreign table, which has no changes in WAL. Detach it."
        else:
            yield f"{what} is unlogged, so its changes are not in WAL. {_SET_LOGGED}"


def _no_identity(table: Table) -> str:
    """Why publishing it would break the application; ``""`` when it does not."""
    name = table.label
    if not table.identified:
        reason = {
            "n": "has REPLICA IDENTITY NOTHING",
            "d": "has no replica identity (no primary key that is not deferrable)",
        }.get(table.replica_identity, "has a replica identity whose index is gone")
    elif table.unidentified_leaf:
        name = table.unidentified_leaf
        reason = f"(a partition of {table.label}) has no replica identity"
    else:
        return ""
    return (
        f"{name} {reason}, so publishing it would make the application's UPDATE and DELETE fail. "
        f"Add a primary key, or run ALTER TABLE {name} REPLICA IDENTITY FULL, or leave "
        f"{table.label} out with source.exclude."
    )
