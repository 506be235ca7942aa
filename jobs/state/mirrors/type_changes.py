"""Changes of the source's own types, which no event tells of.

A label that is added to an enum, or another field of a composite, is met when a value does not fit
its column. The types are read again then, outside of the batch: a label of an enum can be used only
when the transaction that added it has ended. The batch is applied again after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cdc.protocol.relation import TypeInfo
from cdc.source.postgres import Connection
from jobs.state.batch.staging import Fault
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale
from jobs.state.mirrors.table import MirrorTable
from jobs.state.mirrors.table_changes import Refill
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import translated

_OWN: Final = ("enum", "composite", "range", "multirange", "domain")
_UNREAD: Final = ("22P02", "22023", "42804")
"""What PostgreSQL says of a text that is no value of the type."""


class RefreshedTypes(NamedTuple):
    """``changed``: a batch whose records did not fit may be applied again. ``stale``: mirrors that
    have to be filled anew, with the reason, by ``schema.table``."""

    changed: bool
    stale: Mapping[str, Refill]


def may_be_types(faults: Iterable[Fault], tables: Mapping[str, MirrorTable]) -> bool:
    """Whether faults of a batch may come from types that have changed: ask, then try again once."""
    return any(
        fault.sqlstate in _UNREAD
        and (table := tables.get(fault.record.table)) is not None
        and any(_is_own(column.type) for column in table.stored)
        for fault in faults
    )


def _is_own(type: TypeInfo) -> bool:
    return type.kind in _OWN or (type.element is not None and _is_own(type.element))


def refresh_types(
    state: Connection, session: Connection, mirrors: Iterable[MirrorRecord]
) -> RefreshedTypes:
    """Bring the types of these mirrors up to date; ``state`` commits each statement, ``session`` is
    one with the source. Raises ``RetryableError`` when a server is away."""
    types = MirrorTypes(session, state)
    stale: dict[str, Refill] = {}
    with translated("reading the types of the source again"):
        records = list(mirrors)
        for record in records:
            for column in record.table.stored:
                if column.type.oid in types.known.types:  # else its column is gone as well
                    types.column(column.type.oid, -1)
        for record in records:
            for column in record.table.stored:
                if column.sql.removesuffix("[]") in types.replaced:
                    reason = f"the type of its column {column.name} has other fields now"
                    stale[record.table.label] = Refill(reason)
                    mark_stale(state, record.id, reason)
    return RefreshedTypes(bool(types.changed), stale)
