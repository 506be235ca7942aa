"""What DDL made of a table, seen from its mirror: two versions compared. Pure.

A column is its ``attnum``. What a version says is enough for a column that was dropped or renamed.
One that was added or has another type needs the source's catalog (``jobs.state.mirrors.ddl``); a
table that is another one, or has another key, needs a fill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from jobs.state.batch.sql import Shape
from jobs.state.mirrors.schemas_topic import SentColumn, SentVersion
from jobs.state.mirrors.table import MirrorColumn, MirrorTable


class Refill(NamedTuple):
    """The mirror cannot follow: it has to be filled anew. ``reason`` is for people."""

    reason: str


class Changes(NamedTuple):
    """What a mirror has to do to have a version's columns."""

    dropped: tuple[MirrorColumn, ...]
    renamed: tuple[tuple[MirrorColumn, str], ...]
    retyped: tuple[tuple[MirrorColumn, SentColumn], ...]
    added: tuple[SentColumn, ...]

    @property
    def none(self) -> bool:
        return not any(self)


def changes(table: MirrorTable, version: SentVersion) -> Changes | Refill:
    """What leads from the mirror's columns to those of the version."""
    if version.oid != table.oid:
        return Refill("the table was dropped and made again")
    known = dict(table.versions).get(version.schema_id)
    if known and version.numbered and dict(known) != _numbers(version):
        return Refill("a column was dropped, and another has its name and type: events do not tell")
    if not version.numbered:
        if _is_as_named(table, version):
            return Changes((), (), (), ())
        return Refill("it was altered, and which columns its events have is not certain")
    sent = {column.attnum: column for column in version.columns}
    by_name = {column.name: column for column in version.columns}
    key = [by_name[name].attnum for name in version.key if name in by_name]
    if sorted(map(str, key)) != sorted(str(column.attnum) for column in table.key_columns):
        return Refill("it has another key")
    if not has_key(table, version):
        return renamed_key(table, version)
    held = {column.attnum for column in table.columns}
    both = [(one, sent[one.attnum]) for one in table.stored if one.attnum in sent]
    if other := next((one for one, now in both if one.treatment != now.treatment), None):
        return Refill(f"source.columns treats its column {other.name} otherwise now")
    added = [one for one in version.columns if one.attnum not in held and one.element != "array"]
    if late := next((one for one in added if (one.attnum or 0) <= table.highest), None):
        left_out = {name for name, _ in table.left_out}
        if late.name not in left_out:
            return Refill(f"its column {late.name} was not published when the mirror was filled")
        added = [one for one in added if one.name not in left_out]
    return Changes(
        tuple(one for one in table.stored if one.attnum not in sent),
        tuple((one, now.name) for one, now in both if one.name != now.name),
        tuple((one, now) for one, now in both if not is_same_type(one, now)),
        tuple(added),
    )


def has_key(table: MirrorTable, version: SentVersion) -> bool:
    """Whether a version calls the key's columns as the mirror does, in the same order: the texts of
    its event keys are those of the mirror's version then."""
    return version.key == table.key


def renamed_key(table: MirrorTable, version: SentVersion) -> Refill:
    """Of a version that does not: a row's events before and behind it have other event keys, and so
    come from two partitions of the topic, in any order. A value that one of them leaves out may be
    in another one that has yet to come."""
    was, now = ", ".join(table.key), ", ".join(version.key)
    return Refill(f"its key ({was}) is called ({now}) in events, which are in other partitions")


def is_same_type(column: MirrorColumn, sent: SentColumn) -> bool:
    """Whether a version has a column with the type that the mirror has it with; a type may have
    another name since."""
    was = column.type.oid, column.typmod, column.source_oid, column.source_typmod
    is_same = was == (sent.type_oid, sent.typmod, sent.source_oid, sent.source_typmod)
    return is_same and column.treatment == sent.treatment


def to_follow(
    table: MirrorTable, versions: Mapping[str, SentVersion], seen: Collection[str]
) -> SentVersion | None:
    """The version that a mirror has to be given the columns of, before events are applied to it.

    ``versions`` are the table's, by ``schema_id``, in the order in which they were described;
    ``seen`` are those of the events at or above the mirror's fill, which may be of older versions,
    too. It is the mirror's own if that is described otherwise now: a column was dropped, and
    another one of its name and type was added.
    """
    order = _order(table, versions)
    own = versions.get(table.schema_id)
    if own is not None and own.lsn < table.read_lsn:
        own = None  # described before the catalog was read: there is nothing new in it
    if own is not None and (own.oid == table.oid or own.schema_id in seen):
        found = changes(table, own)
        if isinstance(found, Refill) or not found.none:
            return own
        if table.read_lsn and own.numbered:
            return own  # from now on what capture describes is what it has
    later = [
        version
        for schema_id in seen
        if schema_id != table.schema_id
        and (version := versions.get(schema_id)) is not None
        and (table.schema_id not in order or order[schema_id] > order[table.schema_id])
    ]
    return max(later, key=lambda version: order[version.schema_id], default=None)


def held_versions(table: MirrorTable) -> set[str]:
    """The versions, by ``schema_id``, that a mirror has or had: one may have come back, whose
    events say nothing new. None where it has its columns from the catalog: capture may not have
    described what that has told."""
    return set() if table.read_lsn else {table.schema_id, *dict(table.versions)}


def older(table: MirrorTable, versions: Mapping[str, SentVersion]) -> frozenset[str]:
    """The versions, by ``schema_id``, that the table had before the mirror's own, but for those
    that called its key otherwise: there is nothing to follow where events of them come late."""
    order = _order(table, versions)
    own = order.get(table.schema_id)
    before = (id_ for id_, place in order.items() if own is not None and place < own)
    return frozenset(id_ for id_ in before if id_ in versions and has_key(table, versions[id_]))


def _order(table: MirrorTable, versions: Mapping[str, SentVersion]) -> dict[str, tuple[int, int]]:
    """The place of each among a table's versions in time. That of a mirror which has it from the
    catalog is behind all that were described by then: what came later was committed later."""
    order = {id_: (version.lsn, place) for place, (id_, version) in enumerate(versions.items())}
    read = (table.read_lsn, len(versions))
    if table.read_lsn and order.get(table.schema_id, (0, 0)) < read:
        order[table.schema_id] = read
    return order


def shape(table: MirrorTable, version: SentVersion) -> Shape | None:
    """What events of a version call the mirror's columns; None where they are not known to be the
    mirror's table's."""
    known = dict(table.versions).get(version.schema_id)
    if version.oid != table.oid:
        return None
    if not version.numbered and not known:
        if version.lsn < table.read_lsn:
            return None  # the table has been altered since, who knows how
        names = tuple(column.name for column in table.stored)
        return names if _is_as_named(table, version) else None
    return _names(table, known or tuple(_numbers(version).items()))


def shapes(table: MirrorTable, versions: Iterable[SentVersion]) -> dict[str, Shape]:
    """The shapes of the versions that the mirror can read, by ``schema_id``."""
    own = {schema_id: _names(table, names) for schema_id, names in table.versions}
    found = {version.schema_id: shape(table, version) for version in versions}
    return own | {schema_id: one for schema_id, one in found.items() if one is not None}


def with_version(
    table: MirrorTable, version: SentVersion
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """The versions that the mirror had the columns of, with one more."""
    if not version.numbered:
        return table.versions
    known = dict(table.versions) | {version.schema_id: tuple(_numbers(version).items())}
    return tuple(known.items())


def _numbers(version: SentVersion) -> dict[str, int]:
    return {column.name: column.attnum or 0 for column in version.columns}


def _names(table: MirrorTable, numbers: Iterable[tuple[str, int]]) -> Shape:
    names = {attnum: name for name, attnum in numbers}
    return tuple(names.get(column.attnum or 0) for column in table.stored)


def _is_as_named(table: MirrorTable, version: SentVersion) -> bool:
    sent = {column.name: column for column in version.columns}
    return all(one.name in sent and is_same_type(one, sent[one.name]) for one in table.stored)
