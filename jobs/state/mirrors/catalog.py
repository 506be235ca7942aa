"""What a table's mirror is, from the source's catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import psycopg

from cdc.config import Source
from cdc.errors import SourceError, StateError
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.catalog import relation, table_facts
from cdc.source.columns.treated_columns import treated
from cdc.source.errors import translated
from cdc.source.postgres import Connection
from cdc.source.table_lookup import table_files
from cdc.source.types import load_types
from jobs.state.mirrors.table import RESERVED, MirrorColumn, MirrorTable, create_sql, has_one_text
from jobs.state.mirrors.types import MirrorTypes

_ATTRIBUTES: Final = """
select a.attnum::int, a.attname, a.atttypid::bigint, a.atttypmod, a.attcollation::bigint,
       case when a.attgenerated <> '' then pg_catalog.pg_get_expr(d.adbin, d.adrelid) else '' end
from pg_catalog.pg_attribute a
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_KIND: Final = "select relkind::text from pg_catalog.pg_class where oid = %s::oid"
# Types of extensions bring their own `=`, which the search path (pg_catalog alone) does not find.
_EQUALS: Final = """
select pg_catalog.format('operator(%%I.%%s)', n.nspname, o.oprname)
from pg_catalog.pg_opclass c
join pg_catalog.pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
join pg_catalog.pg_amop a on a.amopfamily = c.opcfamily and a.amopstrategy = 3
    and a.amoplefttype = c.opcintype and a.amoprighttype = c.opcintype
join pg_catalog.pg_operator o on o.oid = a.amopopr
join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
where c.opcdefault and c.opcintype = pg_catalog.to_regtype(%s) and n.nspname <> 'pg_catalog'
"""
_RAGGED: Final = "events do not tell the dimensions of an array whose elements are arrays"
_UNCOMPUTED: Final = (
    "it is generated, not published, and the state database cannot compute its expression"
)


class Attribute(NamedTuple):
    """A row of ``pg_attribute``; ``generated`` is the expression of a generated column."""

    attnum: int
    name: str
    type_oid: int
    typmod: int
    collation: int
    generated: str


class MirrorCatalog:
    """Describes mirrors. ``source`` may be in a snapshot: the catalog is read as of that;
    ``types`` has its own sessions."""

    def __init__(
        self,
        types: MirrorTypes,
        state: Connection,
        settings: Source,
    ) -> None:
        self._types, self._state = types, state
        self._settings = settings
        self._infos_known: dict[int, TypeInfo] = {}

    def refresh(self) -> None:
        """Types of the source may be others since."""
        self._types.refresh()
        self._infos_known = {}

    def shape(self, source: Connection, oid: int) -> Relation:
        """The table as its events have it, in the source's session. Raises ``SourceError``."""
        publication, keys = self._settings.publication_name, self._settings.keys
        found = relation(source, oid, self._infos(source), publication, keys)
        return treated(source, found, self._settings)

    def is_partitioned(self, source: Connection, oid: int) -> bool:
        """Whether it is the root of partitions."""
        with translated(f"reading the catalog for table {oid}"):
            return source.execute(_KIND, (oid,)).fetchone() == ("p",)

    def table(self, source: Connection, oid: int) -> MirrorTable:
        """The mirror of a table. Raises ``SourceError`` when it is gone, ``StateError`` when it
        cannot be mirrored."""
        shape = self.shape(source, oid)
        with translated(f"reading the columns of {shape.name}"):
            rows = source.execute(_ATTRIBUTES, (oid,)).fetchall()
        by_name = {column.name: column for column in shape.columns}
        infos, excluded = self._infos(source), self._settings.excluded(shape.name)
        columns, left_out = [], []
        for attribute in map(Attribute._make, rows):
            published = by_name.get(attribute.name)
            if published is not None and _is_ragged(published.type):
                left_out.append((attribute.name, _RAGGED))
            elif published is not None:
                columns.append(describe_column(self._types, self._state, attribute, published))
            elif attribute.generated and attribute.name not in excluded:
                columns.append(_computed(self._types, attribute, infos[attribute.type_oid]))
        table = MirrorTable(
            shape.schema,
            shape.table,
            oid,
            shape.schema_id(),
            tuple(columns),
            shape.key,
            self.is_partitioned(source, oid),
            tuple(left_out),
            table_facts(source, oid).highest,
            table_files(source, oid)[1],
            ((shape.schema_id(), tuple((one.name, one.attnum or 0) for one in shape.columns)),),
        )
        _check(table)
        return self._computable(table)

    def _infos(self, source: Connection) -> dict[int, TypeInfo]:
        if not self._infos_known:
            self._infos_known = load_types(source)
        return self._infos_known

    def _computable(self, table: MirrorTable) -> MirrorTable:
        """Without generated columns that the state database cannot compute: their expressions call
        a function of the user's own, say."""
        for column in (column for column in table.columns if column.generated):
            alone = replace(table, columns=(*table.stored, column))
            statement = create_sql(alone, "pg_temp.tried")
            try:
                with self._state.transaction():
                    self._state.execute(statement.encode())
                    self._state.execute("drop table pg_temp.tried")
            except psycopg.OperationalError:
                raise
            except psycopg.Error:
                columns = tuple(one for one in table.columns if one.name != column.name)
                left_out = (*table.left_out, (column.name, _UNCOMPUTED))
                table = replace(table, columns=columns, left_out=left_out)
        return table


def describe_column(
    types: MirrorTypes, state: Connection, attribute: Attribute, published: Column
) -> MirrorColumn:
    """The mirror's column for one that events carry."""
    how = published.treatment
    if how is not None:  # its values are text, of no collation but the default one
        attribute = attribute._replace(type_oid=published.type.oid, typmod=-1, collation=0)
    found = types.column(attribute.type_oid, attribute.typmod)
    collation = types.collations.match(0 if found.is_text else attribute.collation)
    equals = state.execute(_EQUALS, (found.sql,)).fetchone() if published.key else None
    return MirrorColumn(
        attribute.name,
        attribute.attnum,
        published.type,
        published.typmod,
        found.sql,
        published.nullable,
        collation=collation.sql,
        is_text=found.is_text,
        fault=collation.fault,
        equals=equals[0] if equals else "=",
        one_text=has_one_text(published.type, published.typmod) and collation.deterministic,
        treatment="" if how is None else str(how),
        source_oid=0 if how is None else how.of_type,
        source_typmod=-1 if how is None else how.of_typmod,
    )


def _computed(types: MirrorTypes, attribute: Attribute, info: TypeInfo) -> MirrorColumn:
    found = types.column(attribute.type_oid, attribute.typmod)
    collation = types.collations.match(attribute.collation)
    return MirrorColumn(
        attribute.name,
        attribute.attnum,
        info,
        attribute.typmod,
        found.sql,
        collation=collation.sql,
        generated=attribute.generated,
        is_text=found.is_text,
        fault=collation.fault,
    )


def _is_ragged(type: TypeInfo) -> bool:
    """Whether it is an array of a domain over arrays: of ``[[1]]`` nothing says which is which."""
    return type.element is not None and type.element.element is not None


def _check(table: MirrorTable) -> None:
    if not table.key:
        raise SourceError(
            f"{table.label} has no key, so its rows cannot be identified",
            "name columns in source.keys, add a primary key, or set mirror = false for it",
        )
    for column in table.columns:
        if column.name in RESERVED:
            raise StateError(
                f"{table.label}: {column.name} is a reserved column name in a mirror",
                "rename the column, or set mirror = false for the table",
            )
    for column in table.key_columns:
        if column.fault and not column.one_text:
            raise StateError(
                f"{table.label}.{column.name}: its keys cannot be compared: {column.fault}",
                "use a state database that has the collation (apply.state_dsn)",
            )
