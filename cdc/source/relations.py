"""The version of a table that a Relation message and the catalog tell of together. Pure.

The catalog may be ahead of the stream: since the message, columns may have been renamed, added and
dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cdc.errors import SourceError
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.source.attribute_numbers import Before, attnums
from cdc.source.catalog import TableFacts, key_columns


def describe(
    message: RelationMessage,
    facts: TableFacts,
    types: Mapping[int, TypeInfo],
    configured: Sequence[str] = (),
    before: Before | None = None,
) -> Relation:
    """The relation. The message speaks for the WAL position, the catalog for now; so the catalog
    only orders the key columns that the message flags, and only when they agree. ``before`` is the
    table at an earlier position, None where nothing is known of it."""
    numbers = attnums(message, facts, before)
    facts, configured = _as_sent(message, numbers, facts, configured)
    flagged = tuple(column.name for column in message.columns if column.key)
    key = key_columns(message.replica_identity, facts, configured)
    names = {column.name for column in message.columns}
    if message.replica_identity == "f":
        key = key if names.issuperset(key) else ()
    elif set(key) != set(flagged):
        key = flagged
    columns = []
    for column, attnum in zip(message.columns, numbers, strict=True):
        # A type that was dropped since then is text, as PostgreSQL sends every value.
        kind = types.get(column.type_oid) or _unknown(column.type_oid)
        typmod = column.typmod if column.typmod != -1 else kind.typmod
        nullable, is_key = facts.nullable.get(column.name, True), column.name in key
        collation = facts.collations.get(column.name, "")
        columns.append(Column(column.name, kind, typmod, is_key, nullable, attnum, collation))
    return Relation(
        message.oid, message.schema, message.table, message.replica_identity, tuple(columns), key
    )


def without(relation: Relation, facts: TableFacts, excluded: Collection[str]) -> Relation:
    """The relation without columns that must not leave the source. WAL that was written before the
    publication left them out still has them, maybe under names of then: so of a table with such
    columns only what is published now is kept.

    Raises ``SourceError`` where such a column was in the key: events would have no key without it.
    """
    kept = {(name, attnum) for name, *_, attnum in facts.columns if name not in excluded}
    names, numbers = {name for name, _ in kept}, {attnum for _, attnum in kept}

    def is_kept(column: Column) -> bool:
        if column.name in excluded or column.attnum in facts.unpublished:
            return False
        known = column.attnum in numbers if column.attnum is not None else column.name in names
        certain = column.attnum is not None or not facts.unpublished
        return (column.key and certain) or known or not facts.columns  # of a table that is gone

    columns = tuple(filter(is_kept, relation.columns))
    if lost := set(relation.key) - {column.name for column in columns}:
        raise SourceError(
            "the WAL contains changes whose key includes "
            f"{', '.join(f'{relation.name}.{one}' for one in sorted(lost))}, which is excluded by "
            "source.columns or no longer published",
            "drop the slot with pg_drop_replication_slot, then run `headwater init --again`",
        )
    return replace(relation, columns=columns)


def _as_sent(
    message: RelationMessage,
    numbers: Sequence[int | None],
    facts: TableFacts,
    configured: Sequence[str],
) -> tuple[TableFacts, Sequence[str]]:
    """What the catalog says of columns, and the configuration, under the names of the message: they
    may have been renamed since. A key of a column that came later was none then. One whose name
    another column had then (``id`` makes way for ``new_id``) was that other one: of the name."""
    if None in numbers:
        return facts, configured
    sent = dict(zip(numbers, (column.name for column in message.columns), strict=True))
    called = {name: sent.get(attnum) for name, _, _, attnum in facts.columns}

    def of_then(key: Sequence[str]) -> tuple[str, ...]:
        found = [called.get(name, name) for name in key]
        taken = any(
            one != name and name in sent.values() for one, name in zip(found, key, strict=True)
        )
        if taken and message.replica_identity == "f":  # else the message flags it
            return tuple(key)
        return tuple(name for name in found if name) if None not in found else ()

    nullable = {
        name: facts.nullable[now] for now, name in called.items() if name and now in facts.nullable
    }
    collations = {
        name: facts.collations[now]
        for now, name in called.items()
        if name and now in facts.collations
    }
    then = facts._replace(
        nullable=nullable,
        collations=collations,
        primary_key=of_then(facts.primary_key),
        identity_index=of_then(facts.identity_index),
    )
    return then, of_then(configured)


def _unknown(oid: int) -> TypeInfo:
    return TypeInfo(oid, "", f"oid_{oid}", "base", "text")
