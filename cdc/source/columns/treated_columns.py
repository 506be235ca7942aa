"""Columns whose values are treated before they leave the source: masked, truncated, hashed or
encrypted.

The publication has them as they are, and so has the WAL: whoever reads the source treats them on
the way. ``cdc.protocol.treatment`` says how, a ``Relation`` which. Names are the configuration's,
of the present; in the stream, where a column or its table may have been renamed since this process
began, its ``attnum`` counts, and what was treated before is recorded by it
(``cdc.source.columns.recorded_treatments``). What cannot be found is an error: nothing is sent as
it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from cdc.config import Source
from cdc.errors import SourceError
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.treatment import Treatment
from cdc.source.catalog import TableFacts, chosen_tables
from cdc.source.columns import recorded_treatments as records
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.relations import without
from cdc.source.table_lookup import labels_now, table_oid

_DROPPED: Final = "If it was dropped, remove its entry"
TEXT: Final = TypeInfo(25, "pg_catalog", "text", "base", "text")
"""What a treated value is."""
_COLUMNS: Final = """
select a.attname, a.attnum::int, a.attgenerated <> ''
from pg_catalog.pg_attribute a
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
# Up to 14 it is the column that depends on the others, and then the default that computes it.
_COMPUTED: Final = """
select distinct a.attname, r.attname
from pg_catalog.pg_attribute a
left join pg_catalog.pg_attrdef e on e.adrelid = a.attrelid and e.adnum = a.attnum
join pg_catalog.pg_depend d
  on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = a.attrelid
     and (d.classid = 'pg_catalog.pg_attrdef'::regclass and d.objid = e.oid
          or d.classid = 'pg_catalog.pg_class'::regclass and d.objid = a.attrelid
             and d.objsubid = a.attnum)
join pg_catalog.pg_attribute r on r.attrelid = a.attrelid and r.attnum = d.refobjsubid
where a.attrelid = %s::oid and a.attgenerated <> '' and r.attnum > 0 and r.attnum <> a.attnum
order by 1, 2
"""


def treated(conn: Connection, shape: Relation, source: Source) -> Relation:
    """A table as the catalog has it now, with the treatments of its columns.

    Raises ``SourceError`` where ``source.columns`` names a table or a column that is not there, for
    what cannot be treated, and for generated columns that would tell what is.
    """
    rules = source.treated
    if not rules:
        return shape
    for label in rules:
        table_named(conn, label)
    if shape.name not in rules:
        return shape
    of_table = rules[shape.name]
    if faults := list(treatment_faults(conn, source, shape.oid, shape.name, shape.key)):
        raise SourceError("\n".join(faults))
    columns = (with_treatment(one, of_table.get(one.name)) for one in shape.columns)
    return replace(shape, columns=tuple(columns))


def treatment_faults(
    conn: Connection, source: Source, oid: int, label: str, key: Collection[str]
) -> Iterator[str]:
    """Why columns of a table cannot be treated; ``key`` is that of its events."""
    rules, excluded = source.treated.get(label, {}), source.excluded(label)
    with translated(f"reading the columns of {label}"):
        columns = conn.execute(_COLUMNS, (oid,)).fetchall()
        computed = conn.execute(_COMPUTED, (oid,)).fetchall()
    names = [name for name, *_ in columns]
    generated = {name for name, _, is_generated in columns if is_generated}
    for name in sorted(rules):
        if name not in names:
            near = get_close_matches(name, names, 1, 0.75)
            hint = f"Did you mean {near[0]}?" if near else f"Use its current name. {_DROPPED}."
            yield f"source.columns: {label} has no column {name}. {hint}"
        elif name in key:
            yield (
                f"source.columns: {label}: {name} is in the key of its events, and cannot be "
                "treated: rows could not be told apart. Use another key, or leave the table out "
                "with source.exclude."
            )
        elif name in generated:
            yield (
                f"source.columns: {label}: {name} is a generated column. Exclude it, and treat the "
                "columns that it is computed from."
            )
    for name, of in computed:
        if of in rules and name not in excluded:
            yield (
                f"source.columns: {label}: the generated column {name} is computed from {of}, "
                f'which is treated, and could tell it. Add {name} = "exclude".'
            )


def with_treatment(column: Column, treatment: Treatment | None) -> Column:
    """The column as it is sent."""
    if treatment is None:
        return column
    kind, typmod = column.type, column.typmod
    name = f"{kind.schema}.{kind.name}"
    treatment = replace(treatment, of_type=kind.oid, of_name=name, of_typmod=typmod)
    return column._replace(type=TEXT, typmod=-1, key=False, collation="", treatment=treatment)


def table_named(conn: Connection, label: str) -> int:
    """The OID of a table that ``source.columns`` names."""
    schema, _, name = label.partition(".")
    if (oid := table_oid(conn, schema, name)) is None:
        raise SourceError(
            f"source.columns: there is no table {label}",
            f"use its current name; until then nothing is read from the source. {_DROPPED}",
        )
    return oid


class StreamColumns:
    """What ``source.columns`` makes of the relations of the stream. For one process: it knows the
    treated columns by their attnums, as they were when it began or first met a table, and those
    that were treated before."""

    def __init__(self, source: Source) -> None:
        self._source, self._rules = source, source.treated
        self._known: dict[int, dict[int, Treatment]] = {}
        self._learnt: dict[int, set[str]] = {}
        self._recorded: dict[int, dict[int, str]] = {}
        self._begun = False

    def begin(self, conn: Connection) -> None:
        """Learn the columns that the configuration names, once, and record them. Raises
        ``SourceError`` for one that is not there, and for one that was treated and has no entry."""
        if self._begun:
            return
        for label in self._rules:
            oid = table_named(conn, label)
            with translated(f"reading the columns of {label}"):
                columns = conn.execute(_COLUMNS, (oid,)).fetchall()
            self._learn(oid, [(name, at) for name, at, _ in columns], self._rules[label])
            self._refuse_unknown(oid, label, self._rules[label], ())
        self._compare(conn)
        for oid, known in self._known.items():
            self._record(conn, oid, known)
        self._begun = True

    def _compare(self, conn: Connection) -> None:
        """With what was treated before; what the configuration lifts is treated no more."""
        found = records.recorded(conn, self._source)
        if found is None and self._rules:
            raise SourceError(
                "source.columns: the schema headwater has no table treated_column that the role "
                "may read",
                "run `headwater init`, which adds it, as the role that owns the schema",
            )
        tables = chosen_tables(conn, self._source)[0] if found else []
        labels = {table.oid: table.label for table in tables}
        if faults := "\n".join(records.recorded_faults(self._source, labels, found or ())):
            raise SourceError(faults)
        for one in records.lift(conn, self._source, labels, found or ()):
            self._recorded.setdefault(one.oid, {})[one.attnum] = one.treatment

    def _record(self, conn: Connection, oid: int, known: Mapping[int, Treatment]) -> None:
        was = self._recorded.setdefault(oid, {})
        if new := {at: one for at, one in known.items() if was.get(at) != str(one)}:
            records.record(conn, self._source, oid, new)
            was.update((at, str(one)) for at, one in new.items())

    def applied(self, conn: Connection, relation: Relation, facts: TableFacts) -> Relation:
        """The relation as it may be sent. Older WAL may have the table and its columns under other
        names, or be of a table that is a partition now. Raises ``SourceError``."""
        recorded = self._recorded.get(relation.oid)
        if not (self._source.columns or recorded):
            return relation
        labels = {relation.name, *labels_now(conn, relation.oid)}
        excluded = {name for label in labels for name in self._source.excluded(label)}
        rules = {n: t for label in labels for n, t in self._rules.get(label, {}).items()}
        if rules:
            self._learn(relation.oid, [(name, at) for name, *_, at in facts.columns], rules)
        known = self._known.get(relation.oid, {})
        if excluded or known or rules or recorded:
            relation = without(relation, facts, excluded)
        if known or rules:
            self._refuse_unknown(relation.oid, relation.name, rules, relation.columns)
            relation = self._treated(relation, facts, rules, known)
            self._refuse_computed(conn, relation)
            self._record(conn, relation.oid, known)
        self._refuse_recorded(relation, facts)
        return relation

    def _refuse_recorded(self, relation: Relation, facts: TableFacts) -> None:
        """WAL of a column that was treated when it was written, and that nobody treats now."""
        now = {name: attnum for name, *_, attnum in facts.columns}
        was = self._recorded.get(relation.oid, {})
        bare = [one for one in relation.columns if not one.treatment]
        all_known = len(relation.columns) - len(bare) >= len(was)
        numbers = {one.name: one.attnum or now.get(one.name) for one in bare if was}
        found = [n for n, at in numbers.items() if at in was or (at is None and not all_known)]
        if found:
            raise SourceError(
                f"source.columns: the WAL contains changes of {relation.name} with "
                f"{', '.join(sorted(found))}, which was treated, and has no entry now",
                "add the entry again; or drop the slot with pg_drop_replication_slot, then run "
                "`headwater init --again`, which skips that WAL",
            )

    def _learn(
        self, oid: int, columns: Sequence[tuple[str, int]], rules: Mapping[str, Treatment]
    ) -> None:
        for name, attnum in columns:
            if name in rules:
                self._known.setdefault(oid, {})[attnum] = rules[name]
                self._learnt.setdefault(oid, set()).add(name)

    def _refuse_unknown(
        self, oid: int, label: str, rules: Mapping[str, Treatment], columns: Sequence[Column]
    ) -> None:
        there = self._learnt.get(oid, set()) | {column.name for column in columns}
        if lost := sorted(rules.keys() - there):
            raise SourceError(
                f"source.columns names {', '.join(f'{label}.{one}' for one in lost)}, but {label} "
                "has no such column",
                f"use its current name, then run this again. {_DROPPED}",
            )

    def _treated(
        self,
        relation: Relation,
        facts: TableFacts,
        rules: Mapping[str, Treatment],
        known: Mapping[int, Treatment],
    ) -> Relation:
        called = {name: known[attnum] for name, *_, attnum in facts.columns if attnum in known}
        by_name = called | dict(rules)

        def of(column: Column) -> Treatment | None:
            found = None if column.attnum is None else known.get(column.attnum)
            return found or by_name.get(column.name)

        columns = tuple(with_treatment(column, of(column)) for column in relation.columns)
        if lost := {one.name for one in columns if one.treatment} & set(relation.key):
            raise SourceError(
                "the WAL contains changes whose key includes "
                f"{', '.join(f'{relation.name}.{one}' for one in sorted(lost))}, which "
                "source.columns treats",
                "drop the slot with pg_drop_replication_slot, then run `headwater init --again`",
            )
        return replace(relation, columns=columns)

    def _refuse_computed(self, conn: Connection, relation: Relation) -> None:
        """A generated column that came since, and is published."""
        names = {column.name: column.treatment for column in relation.columns}
        with translated(f"reading the columns of {relation.name}"):
            computed = conn.execute(_COMPUTED, (relation.oid,)).fetchall()
        for name, of in computed:
            if name in names and names.get(of):
                raise SourceError(
                    f"source.columns: {relation.name}: the generated column {name} is computed "
                    f"from {of}, which is treated, and is published",
                    f'add {name} = "exclude" to it, and leave the column out of the publication',
                )
