"""How a view is kept over mirrors: which keys a change touches, and how their rows are made. Pure.

``plan_view`` is the way in. All of it is SQL that PostgreSQL computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from cdc.errors import ViewError
from views.maintain.groups.group_plan import GroupPlan
from views.maintain.groups.plan import groups_of
from views.maintain.indexes import Index, indexes
from views.maintain.mirror import MirrorTable
from views.maintain.proofs.dependent_columns import name_dependent_columns
from views.maintain.proofs.determinism import check_orders
from views.maintain.proofs.display_only_columns import check_shown_only
from views.maintain.proofs.number_forms import number_form
from views.maintain.proofs.single_rows import SingleRows, single_rows
from views.maintain.proofs.text_patterns import check_patterns
from views.maintain.proofs.view_key import key_positions, prove
from views.maintain.pushdown import rows_of_keys
from views.maintain.read_columns import columns_read
from views.maintain.touched.key_queries import Touched
from views.maintain.touched.links import NullComparedError
from views.maintain.touched.occurrences import Occurrence, occurrences
from views.maintain.touched.paths import NoWayError
from views.maintain.touched.search_plan import Find
from views.maintain.touched.whole_view_gates import gate_of, nothing_compared
from views.maintain.tree.render import RESERVED, Template, Writer, quoted
from views.maintain.tree.scope import resolve
from views.maintain.tree.statement import check, parse
from views.maintain.tree.tree import Query, Recursion, SetOperation, Statement

Relation = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Finds the keys that changed rows of one occurrence of a table touch.

    ``flavour`` is ``exact``: run with the old images over the state before and with the new ones
    over the state after; or ``beside``: with old and new images together over either state.
    ``both_states`` are the tables whose images it also reads, of both kinds. ``key`` is that of the
    table.
    """

    table: str
    key: tuple[str, ...]
    alias: str
    flavour: str
    both_states: tuple[str, ...]
    template: Template

    def sql(self, relation: Relation, changed: str, images: Relation | None = None) -> str:
        """SELECT DISTINCT of the key's columns, under the view's names.

        ``relation`` gives the mirror of a table, ``changed`` has the images, ``images`` gives the
        relation that holds old and new images of a table (an empty one if nothing changed); it is
        asked for the tables in ``both_states`` only.
        """
        return self.template.fill(relation, changed, images)


@dataclass(frozen=True, slots=True)
class Gate:
    """A small relation whose difference between two states decides over the whole view."""

    table: str
    template: Template

    def sql(self, relation: Relation) -> str:
        """The relation in one state."""
        return self.template.fill(relation, "")


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A view that is kept.

    ``reads`` are the columns read of each table, its key among them. A change of a table in
    ``whole_tables`` makes the whole view dirty, for the reason given there; one of a table in
    ``gates`` does if a gate differs between the states, and else touches what its key queries
    find. ``clock`` says that rows change with time alone. ``assumes`` is what the key's proof
    takes for granted: two rows of one key, or NULL in it, are to be told and not shown.
    ``number_forms`` tells of the key's columns ``views.maintain.proofs.number_forms``.
    ``completed``: lists were given an order that the SQL leaves open, so that it may show them
    otherwise than ``whole`` does. ``groups`` are kept by the change; None where a group is made of
    its rows, for the reason in ``groups_reason``. ``single`` says whether each row is made of one
    row of a table, as a history needs it.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    mode: str
    reason: str
    reads: Mapping[str, tuple[str, ...]]
    key_queries: tuple[KeyQuery, ...]
    whole_tables: Mapping[str, str]
    gates: tuple[Gate, ...]
    indexes: tuple[Index, ...]
    clock: bool
    assumes: tuple[str, ...]
    number_forms: Mapping[str, str]
    completed: bool
    rows_template: Template
    whole_template: Template
    groups: GroupPlan | None = None
    groups_reason: str = ""
    single: SingleRows = field(default_factory=SingleRows)

    def rows(self, relation: Relation, keys: str) -> str:
        """SELECT: the view's rows whose key is in the relation ``keys``, which holds no NULL."""
        return self.rows_template.fill(relation, keys)

    def changed(self, query: KeyQuery, old: str, new: str, state: str) -> str:
        """The images that ``query`` is to be run with in a state, ``before`` or ``after``: those of
        rows of which the view sees a change. One that has the same bytes in all columns that are
        read, before and after, touches no key.

        Old and new images of a key are neighbours: found by sorting, however many there are.
        """
        reads = self.reads[query.table]
        names, key = (", ".join(map(quoted, part)) for part in (reads, query.key))
        is_new, other = (_free(name, reads) for name in ("is_new", "other"))
        row = f"ROW({names})::record"
        side = {"before": f"NOT {is_new} AND ", "after": f"{is_new} AND "}[state]
        return (
            f"(SELECT {names} FROM (SELECT {names}, {is_new}, CASE WHEN {is_new} "
            f"THEN lag({row}) OVER of_key ELSE lead({row}) OVER of_key END AS {other} "
            f"FROM (SELECT {names}, false AS {is_new} FROM {old} AS o "
            f"UNION ALL SELECT {names}, true FROM {new} AS n) AS images "
            f"WINDOW of_key AS (PARTITION BY {key} ORDER BY {is_new})) AS beside_other "
            f"WHERE {side if query.flavour == 'exact' else ''}"
            f"({other} OPERATOR(pg_catalog.*=) {row}) IS NOT TRUE)"
        )

    def whole(self, relation: Relation) -> str:
        """SELECT: all rows of the view."""
        return self.whole_template.fill(relation, "")


def plan_view(
    name: str,
    sql: str,
    key: Sequence[str],
    tables: Mapping[str, MirrorTable],
    functions: Mapping[str, str] | None = None,
) -> ViewPlan:
    """The plan of a view. ``functions`` are those beyond PostgreSQL's own: volatility by name.

    Raises ``ViewError`` for what no view can be, and for a key that is not proven.
    """
    for word in RESERVED:
        if word in sql:
            raise ViewError(f"views.{name}.sql: {word!r} is reserved", "choose another name")
    parsed = parse(name, sql)
    clock = check(name, parsed, functions or {})
    statement = resolve(name, parsed, tables)
    check_shown_only(statement)
    check_patterns(statement)
    name_dependent_columns(statement)
    read = columns_read(statement)
    positions = key_positions(name, statement.query, key)
    completed = check_orders(statement)
    assumes = prove(statement, key, positions)
    writer = Writer(statement, read)
    whole = Template(writer.query(statement.query), read)
    rows = Template(rows_of_keys(statement, read, tuple(key), positions), read)
    found = _Found(statement, read, tuple(key), positions)
    for occurrence in occurrences(statement):
        found.add(occurrence)
    shown = [node for place in positions for node in outputs(statement.query, place)]
    queries = tuple(query for query in found.queries if query.table not in found.whole)
    may_be_whole = bool(found.whole or found.gates)
    groups, why = groups_of(statement, read, key, positions, may_be_whole, clock)
    return ViewPlan(
        name=name,
        key=tuple(key),
        columns=statement.query.columns,
        mode="keys" if queries else "whole",
        reason="" if queries else "; ".join(dict.fromkeys(found.whole.values())),
        reads=read,
        key_queries=queries,
        whole_tables=found.whole,
        gates=tuple(gate for gate in found.gates if gate.table not in found.whole),
        indexes=indexes(statement, shown, groups.indexes if groups else ()),
        clock=clock,
        assumes=tuple(dict.fromkeys(assumes)),
        number_forms={
            column: number_form(statement.query, at)
            for column, at in zip(key, positions, strict=True)
        },
        completed=completed,
        rows_template=rows,
        whole_template=whole,
        groups=groups,
        groups_reason=why,
        single=single_rows(statement, positions),
    )


def _free(name: str, taken: Sequence[str]) -> str:
    """A name of our own, quoted, that none of these is."""
    while name in taken:
        name += "_"
    return quoted(name)


def outputs(query: Query, position: int) -> list[exp.Expr]:
    """What a column of a query is in each of its branches."""
    if isinstance(query, SetOperation):
        return outputs(query.left, position) + outputs(query.right, position)
    if isinstance(query, Recursion):
        return outputs(query.anchor, position)
    return [query.outputs[position].node]


@dataclass(slots=True)
class _Found:
    """What is found for the occurrences of a view's tables."""

    statement: Statement
    read: Mapping[str, tuple[str, ...]]
    key: tuple[str, ...]
    positions: Sequence[int]
    queries: list[KeyQuery] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    whole: dict[str, str] = field(default_factory=dict)

    def add(self, occurrence: Occurrence) -> None:
        """Key queries for an occurrence; else a gate, else the reason why there is none."""
        table = occurrence.table.table
        gated: set[str] = set()
        while True:
            try:
                self.queries += self._queries(occurrence, gated)
            except NullComparedError as error:
                gated.add(error.name)
                self._gate(table, nothing_compared(self.statement, self.read, error.name))
                continue
            except NoWayError as reason:
                gate = gate_of(self.statement, self.read, occurrence)
                if gate is None:
                    self.whole.setdefault(table, str(reason))
                else:
                    self._gate(table, gate)
            return

    def _gate(self, table: str, sql: str) -> None:
        gate = Gate(table, Template(sql, self.read))
        if gate not in self.gates:
            self.gates.append(gate)

    def _queries(self, occurrence: Occurrence, gated: set[str]) -> list[KeyQuery]:
        touched = Touched(self.statement, self.read, gated=gated)
        wanted = list(zip(self.key, self.positions, strict=True))
        parts = touched.query(self.statement.query, occurrence.steps, wanted, Find.SOME)
        names = ", ".join(quoted(name) for name in self.key)
        there = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.key)
        flavour = "beside" if touched.beside else "exact"
        both = tuple(sorted(touched.both_states))
        return [
            KeyQuery(
                occurrence.table.table,
                tuple(occurrence.table.key),
                occurrence.alias,
                flavour,
                both,
                Template(
                    f"SELECT DISTINCT {names} FROM ({part}) AS found WHERE {there}", self.read
                ),
            )
            for part in parts
        ]
