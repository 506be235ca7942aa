"""A table's columns under the names that one generation of a view has for them. Pure.

A column is its attnum: RENAME COLUMN changes how it is called and nothing else, as for a view in
PostgreSQL. So a generation keeps the names that its SQL was resolved with, and sees every version
of the table under these. Of another table of the same name, made when the first was dropped, it
keeps those that it met that one with. Where attnums are not known (an older Headwater described the
version, or the generation began with a version that has none) names are all there is. A version
that has none since the catalog was ahead of the stream is not read at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from views.table_versions import TableVersion


class Naming(NamedTuple):
    """What a generation calls the columns of a table: by attnum, of the table with this OID.

    It began with the version ``schema_id``. Without an OID the attnums of that one are not known.
    ``told`` are the attnums of each version's columns, by ``schema_id``, as they were first read.
    ``later`` is what it calls the columns of tables that were made in the place of that one, by
    OID and attnum: it met them by their own names.
    """

    schema_id: str
    oid: int
    names: Mapping[int, str]
    told: Mapping[str, tuple[int, ...]] = {}
    later: Mapping[int, Mapping[int, str]] = {}

    def names_of(self, version: TableVersion) -> Mapping[int, str] | None:
        """By attnum; None where the version's own names are all there is."""
        if not version.numbered or not self.oid:
            return None
        return self.names if version.oid == self.oid else self.later.get(version.oid)


def begun(version: TableVersion) -> Naming:
    """Of a generation whose SQL is resolved against this version."""
    if not version.numbered:
        return Naming(version.schema_id, 0, {})
    names = {column.attnum: column.name for column in version.columns if column.attnum}
    return Naming(version.schema_id, version.oid, names, {version.schema_id: attnums(version)})


def grown(naming: Naming, versions: Collection[TableVersion]) -> Naming:
    """With the columns that came since, under the names they came with.

    One whose name the generation has for another column gets none: the SQL means that other one.
    """
    names, told = dict(naming.names), dict(naming.told)
    later = {oid: dict(of_table) for oid, of_table in naming.later.items()}
    for version in versions:
        if not naming.oid and version.schema_id == naming.schema_id and version.numbered:
            return grown(begun(version), versions)
        if not version.numbered or not naming.oid:
            continue
        if version.oid == naming.oid:
            told.setdefault(version.schema_id, attnums(version))
            _grow(names, version)
        else:
            _grow(later.setdefault(version.oid, {}), version)
    return naming._replace(names=names, told=told, later=later)


def _grow(names: dict[int, str], version: TableVersion) -> None:
    for column in version.columns:
        if column.attnum not in names and column.name not in names.values():
            assert column.attnum is not None, "it is numbered"
            names[column.attnum] = column.name


def attnums(version: TableVersion) -> tuple[int, ...]:
    """Of a numbered version's columns, in their order."""
    return tuple(column.attnum or 0 for column in version.columns)


def exchanged(naming: Naming, versions: Collection[TableVersion]) -> list[str]:
    """Columns whose names stood for others of the generation's when their version was first read.

    The versions have one ``schema_id``: a column was dropped, and one of its type has its name and
    place. Of an event nothing tells which of the two it was written under.
    """
    return [
        column.name
        for version in versions
        if version.numbered and version.oid == naming.oid
        for column, was in zip(
            version.columns, naming.told.get(version.schema_id, attnums(version)), strict=True
        )
        if column.attnum != was and column.attnum in naming.names
    ]


def seen(version: TableVersion, naming: Naming) -> TableVersion:
    """The version under the generation's names, without columns that it has none for."""
    if (own := naming.names_of(version)) is None:
        return version
    names = {column.name: own.get(column.attnum or 0) for column in version.columns}
    if all(name == sent for sent, name in names.items()):
        return version
    columns = tuple(
        column._replace(name=name) for column in version.columns if (name := names[column.name])
    )
    # A key of a column without a name is no key of the generation's columns.
    key = tuple(names.get(part) or f"{part} (another column)" for part in version.key)
    return replace(version, columns=columns, key=key, as_sent=version)


def is_unproven(version: TableVersion, naming: Naming) -> bool:
    """Whether it is not certain what the columns of a version are, of a table whose columns the
    generation knows by attnum.

    Its names may be other columns' by now: one that was renamed would be read as NULL, two that
    were swapped as each other.
    """
    is_followed = version.oid == naming.oid or version.oid in naming.later
    return bool(naming.oid) and is_followed and not version.numbered


def keys_as_sent(versions: Collection[TableVersion]) -> set[tuple[str, ...]]:
    """What events call the key columns: several ways, where one was renamed."""
    return {(one.as_sent or one).key for one in versions if one.numbered}


def called_now(version: TableVersion) -> dict[str, str]:
    """Columns that a version calls otherwise than the generation does that sees it."""
    found = {column.name: version.sent(column.name) for column in version.columns}
    return {name: sent for name, sent in found.items() if sent and sent != name}
