"""Changes of the source's own types, which no event tells of.

A label that is added to an enum, or another field of a composite, is met when a value does not fit
its column; labels that were renamed are looked for as well. The types are read again then, outside
of the batch: a label of an enum can be used only when the transaction that added it has ended. The
batch is applied again after that.

A label that was renamed is renamed in the mirrors' enum, and with it in all of their rows; events
from before have its old name, which is known from then on (``MirrorColumn.former``). Where that is
not enough, a mirror is filled again: behind the fill all events have the names that labels have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import Connection
from jobs.state.batch.staging import Fault
from jobs.state.mirrors.enum_labels import EnumLabels, noted_enums, relabelled
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale
from jobs.state.mirrors.source_types import read_labels, type_name
from jobs.state.mirrors.table import MirrorColumn, MirrorTable
from jobs.state.mirrors.table_changes import Refill
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import translated
from jobs.state.views.missed_changes import leave_readers
from jobs.state.views.view_record import forget_keyed

_OWN: Final = ("enum", "composite", "range", "multirange", "domain")
_UNREAD: Final = ("22P02", "22023", "42804")
"""What PostgreSQL says of a text that is no value of the type."""


class RefreshedTypes(NamedTuple):
    """``changed``: a batch whose records did not fit may be applied again. ``stale``: mirrors that
    have to be filled anew, with the reason, by ``schema.table``. ``relabelled``: mirrors whose rows
    have labels that were renamed."""

    changed: bool
    stale: Mapping[str, Refill]
    relabelled: frozenset[str] = frozenset()


def may_be_types(faults: Iterable[Fault], tables: Mapping[str, MirrorTable]) -> bool:
    """Whether faults of a batch may come from types that have changed: ask, then try again once."""
    return any(
        fault.sqlstate in _UNREAD
        and (table := tables.get(fault.record.table)) is not None
        and any(_is_own(column.type) for column in table.stored)
        for fault in faults
    )


def unknown_labels(
    state: Connection, faults: Iterable[Fault], tables: Mapping[str, MirrorTable]
) -> set[str]:
    """The tables of records with a label that its enum neither has nor is known to have had: it was
    renamed twice since the types were read. Of ``tables``, by ``schema.table``; the types were read
    again since."""
    enums: Mapping[str, EnumLabels] = {}
    found = set()
    for fault in faults:
        table, image = tables.get(fault.record.table), fault.record.image
        if fault.sqlstate not in _UNREAD or table is None or image is None:
            continue
        enums = enums or noted_enums(state)
        values = json.loads(image)
        for column in table.stored:
            if (of := enums.get(column.sql.removesuffix("[]"))) is None:
                continue
            if not set(_texts(values.get(column.name))) <= {*of.labels.values(), *of.former}:
                found.add(table.label)
    return found


def _texts(value: object) -> Iterator[str]:
    """The labels in an event's value: one, or those of an array that is told by its elements."""
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _is_own(type: TypeInfo) -> bool:
    return type.kind in _OWN or (type.element is not None and _is_own(type.element))


def refresh_types(
    state: Connection, session: Connection, mirrors: Iterable[MirrorRecord]
) -> RefreshedTypes:
    """Bring the types of these mirrors up to date; ``session`` is one with the source. What it
    makes of mirrors and views is one transaction with the renamed labels.

    Views that are keyed by a label that was renamed are forgotten: their store has the rows under
    its old name, so they are built again. All others over the labels are noted as passed over.
    Raises ``RetryableError`` when a server is away.
    """
    types = MirrorTypes(session, state, renames=True)
    with translated("reading the types of the source again"), state.transaction():
        records = list(mirrors)
        for oid in _followed(state, types, records):
            types.column(oid, -1)
        stale: dict[str, Refill] = {}
        relabelled = set()
        for record in records:
            if _renamed(types, record.table.columns):
                relabelled.add(record.table.label)
            if reason := _refill(types, record.table):
                stale[record.table.label] = Refill(reason)
                mark_stale(state, record.id, reason)
        for label in relabelled:
            leave_readers(state, label)
        if types.renamed:
            forget_keyed(state, [_called(types, oid) for oid in types.renamed])
    return RefreshedTypes(bool(types.changed), stale, frozenset(relabelled))


def any_renamed(held: Mapping[str, EnumLabels], session: Connection) -> bool:
    """Whether the source has renamed labels of enums that the state database has
    (``noted_enums``)."""
    found = {type_name(schema, name): labels for schema, name, labels in read_labels(session)}
    return any(
        relabelled(held[called], found[called]).is_renamed
        for called in held.keys() & found.keys()
        if held[called].labels != found[called]
    )


def _followed(
    state: Connection, types: MirrorTypes, records: Sequence[MirrorRecord]
) -> Iterator[int]:
    """The types that mirrors have, and enums that none has any more: the next one may."""
    held = noted_enums(state)
    for one in types.known.types.values():
        if one.kind == "e" and type_name(one.schema, one.name) in held:
            yield one.oid
    for record in records:
        for column in record.table.stored:
            if column.type.oid in types.known.types:  # else its column is gone as well
                yield column.type.oid


def _called(types: MirrorTypes, oid: int) -> str:
    one = types.known.types[oid]
    return type_name(one.schema, one.name)


def _renamed(types: MirrorTypes, columns: Sequence[MirrorColumn]) -> set[int]:
    """The enums with renamed labels that columns have or are made of."""
    by_name = {_called(types, oid): oid for oid in types.renamed}
    found = {by_name.get(column.sql.removesuffix("[]"), 0) for column in columns}
    found |= {one.oid for one in types.known.needed(column.type.oid for column in columns)}
    return found & types.renamed.keys()


def _refill(types: MirrorTypes, table: MirrorTable) -> str:
    """Why a mirror has to be filled anew; "" where it need not be."""
    for column in table.stored:
        if column.sql.removesuffix("[]") in types.replaced:
            return f"the type of its column {column.name} has other fields now"
        for oid in _renamed(types, [column]):
            called = f"labels of the enum {_called(types, oid)} were renamed"
            if types.renamed[oid]:
                return f"{called}, and a name is another label's now"
            if column.name in table.key:  # events of one row are in two partitions
                return f"{called}, which its key {column.name} is of"
            if column.sql.removesuffix("[]") != _called(types, oid):
                return f"{called}, which values of its column {column.name} are made of"
    return ""
