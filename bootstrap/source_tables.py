"""The tables of views as the source has them now: what a view is declared over.

The log knows of DDL with the table's next change only, and of an enum's labels never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc.config import Source
from cdc.protocol.relation import TypeInfo
from cdc.source.catalog import enum_labels, relation
from cdc.source.columns.treated_columns import treated
from cdc.source.postgres import Connection, connect
from cdc.source.table_lookup import table_of
from cdc.source.types import load_types
from views.enum_labels import labelled
from views.table_versions import TableVersion, parse_version


def present(source: Source, tables: Mapping[str, TableVersion]) -> dict[str, TableVersion]:
    """What has become of tables, by ``schema.table``. Raises ``SourceError`` for one that is gone,
    and for a key that is not published."""
    with connect(source.dsn, application_name="headwater view") as conn:
        types = load_types(conn)
        return {
            name: version_now(conn, table_of(conn, one.schema, one.table)[0], types, source)
            for name, one in tables.items()
        }


def version_now(
    conn: Connection,
    oid: int,
    types: Mapping[int, TypeInfo],
    source: Source,
    computed: bool = False,
) -> TableVersion:
    """A table as a view has it, with the labels of its enums; ``computed``: as its mirror has it,
    which computes the generated columns that events do not carry. Without excluded columns."""
    shape = relation(conn, oid, types, source.publication_name, source.keys, computed)
    excluded = source.excluded(shape.name)
    shape = replace(shape, columns=tuple(c for c in shape.columns if c.name not in excluded))
    shape = treated(conn, shape, source)
    return labelled(parse_version(shape.describe()), enum_labels(conn, oid))
