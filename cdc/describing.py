"""Relation messages completed from the catalog, and rows read again by their key.

The two questions that the stream cannot answer by itself. Both are rare (once for each table
version and session; a key change of a row with unchanged TOAST), so each opens its own session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cdc.catalog import TableFacts, key_columns, load_types, table_facts
from cdc.messages import RelationMessage, Value, Values
from cdc.postgres import connect, identifier, translated
from cdc.relation import Column, Relation, TypeInfo


class Describer:
    """Resolves Relation messages; ``announce`` is called with each relation before its rows."""

    def __init__(
        self,
        dsn: str,
        keys: Mapping[str, Sequence[str]],
        announce: Callable[[Relation], None],
    ) -> None:
        self._dsn = dsn
        self._keys = keys
        self._announce = announce
        self._types: dict[int, TypeInfo] = {}

    def resolve(self, message: RelationMessage) -> Relation:
        """The relation with type names, nullability and its key in order."""
        with connect(self._dsn) as conn:
            if any(column.type_oid not in self._types for column in message.columns):
                self._types = load_types(conn)
            facts = table_facts(conn, message.oid)
        configured = self._keys.get(f"{message.schema}.{message.table}", ())
        relation = describe(message, facts, self._types, configured)
        self._announce(relation)
        return relation

    def lookup(self, relation: Relation, key: Values) -> Values | None:
        """The row as it is now, in wire form; None when it is gone."""
        columns = ", ".join(identifier(column.name) for column in relation.columns)
        where = " and ".join(f"{identifier(name)} = ${i}" for i, name in enumerate(relation.key, 1))
        query = (
            f"select {columns} from {identifier(relation.schema)}.{identifier(relation.table)} "
            f"where {where}"
        )
        parameters = [value if isinstance(value, bytes) else None for value in key]
        with connect(self._dsn) as conn, translated(f"reading a row of {relation.name}"):
            result = conn.pgconn.exec_params(query.encode(), parameters)
            if result.error_message:
                conn.execute(query)  # raises the same fault as psycopg's error
            if result.ntuples == 0:
                return None
            row: list[Value] = [result.get_value(0, i) for i in range(result.nfields)]
            return row


def describe(
    message: RelationMessage,
    facts: TableFacts,
    types: Mapping[int, TypeInfo],
    configured: Sequence[str] = (),
) -> Relation:
    """Pure part of ``resolve``. The message speaks for the WAL position, the catalog for now; so
    the catalog only orders the key columns that the message flags, and only when they agree."""
    flagged = tuple(column.name for column in message.columns if column.key)
    key = key_columns(message.replica_identity, facts, configured)
    names = {column.name for column in message.columns}
    if message.replica_identity == "f":
        key = key if names.issuperset(key) else ()
    elif set(key) != set(flagged):
        key = flagged
    columns = []
    for column in message.columns:
        # A type that was dropped since then is text, as PostgreSQL sends every value.
        kind = types.get(column.type_oid) or _unknown(column.type_oid)
        typmod = column.typmod if column.typmod != -1 else kind.typmod
        nullable = facts.nullable.get(column.name, True)
        columns.append(Column(column.name, kind, typmod, column.name in key, nullable))
    return Relation(
        message.oid, message.schema, message.table, message.replica_identity, tuple(columns), key
    )


def _unknown(oid: int) -> TypeInfo:
    return TypeInfo(oid, "", f"oid_{oid}", "base", "text")
