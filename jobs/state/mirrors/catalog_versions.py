"""The version that the source's catalog has of a mirrored table.

Capture describes a version with the first event of it: until then the catalog alone has a column
that was added, or a new name. What is read is not ahead of the WAL at ``lsn``: DDL waits for the
lock that is held meanwhile, so events of earlier versions were committed below, and those of later
ones are committed above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from cdc.config import Source
from cdc.errors import RetryableError
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source.catalog import relation
from cdc.source.columns.recorded_treatments import refuse_unrecorded
from cdc.source.columns.treated_columns import treated
from cdc.source.errors import translated
from cdc.source.position import current_lsn
from cdc.source.postgres import Connection, identifier
from cdc.source.table_lookup import lock_against_ddl
from jobs.state.mirrors.ddl import follow
from jobs.state.mirrors.mirror_record import MirrorRecord, mark_stale
from jobs.state.mirrors.schemas_topic import SentVersion, parse_version
from jobs.state.mirrors.table import MirrorTable
from jobs.state.mirrors.table_changes import Refill, changes
from jobs.state.mirrors.types import MirrorTypes

_KIND: Final = "select relkind::text from pg_catalog.pg_class where oid = %s::oid"
_GENERATED: Final = """
select a.attnum::int, a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
from pg_catalog.pg_attribute a
join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped and a.attgenerated <> ''
"""


class CatalogVersion(NamedTuple):
    """What a mirror has to follow. ``refill`` says why it cannot, "" where it may be able to."""

    record: MirrorRecord
    version: SentVersion
    refill: str = ""


class SourceCatalog(NamedTuple):
    """A session with the source; ``types`` are those that it has now (``load_types``)."""

    session: Connection
    source: Source
    types: Mapping[int, TypeInfo]

    def shape(self, oid: int) -> Relation:
        """A table as its events have it now."""
        name = self.source.publication_name
        found = relation(self.session, oid, self.types, name, self.source.keys)
        return treated(self.session, found, self.source)


def read_ahead(
    catalog: SourceCatalog,
    record: MirrorRecord,
    oid: int,
    described: Callable[[], Mapping[str, SentVersion]],
) -> CatalogVersion | None:
    """The version of the catalog, if the mirror has other columns; ``oid`` is that of the table
    which has its name now, ``described`` gives the versions that capture has described.

    Raises ``SourceError`` for what cannot be mirrored, ``RetryableError`` when the source is away
    or DDL comes meanwhile, and while capture treats columns otherwise than ``source.columns`` says.
    """
    held, shape = record.table, catalog.shape(oid)
    refuse_unrecorded(catalog.session, catalog.source, shape)
    if not _differs(catalog, held, _version(shape, 0)):
        return None
    version = _read(catalog, oid)
    known = described().get(version.schema_id)
    found = changes(held, version)
    if isinstance(found, Refill):
        return CatalogVersion(record, version, found.reason)
    if known is not None and known.numbered and _numbers(known) != _numbers(version):
        reason = "a column was dropped, and another has its name and type: events do not tell"
        return CatalogVersion(record, version, reason)
    if _are_others(catalog, held, version):
        return CatalogVersion(record, version, "its generated columns are others")
    return CatalogVersion(record, version)


def follow_ahead(
    state: Connection, session: Connection, types: MirrorTypes, ahead: CatalogVersion
) -> MirrorTable | Refill:
    """Give the mirror the columns of the catalog's version, as ``mirror_ddl.follow`` does, or mark
    it as stale; ``state`` is in autocommit mode."""
    record = ahead.record
    with state.transaction():
        if not ahead.refill:
            return follow(state, session, types, record, ahead.version)
        mark_stale(state, record.id, ahead.refill)
        return Refill(ahead.refill)


def _read(catalog: SourceCatalog, oid: int) -> SentVersion:
    """The version at an LSN. Nobody changes the table meanwhile."""
    session, shape = catalog.session, catalog.shape(oid)
    with translated(f"reading the columns of {shape.name}"), session.transaction():
        only = "" if session.execute(_KIND, (oid,)).fetchone() == ("p",) else "only "
        name = f"{identifier(shape.schema)}.{identifier(shape.table)}"
        lock_against_ddl(session, f"{only}{name}")
        if catalog.shape(oid) != shape:
            raise RetryableError(f"{shape.name} was altered", "wait: it is read again")
        lsn = current_lsn(session)
    return _version(shape, lsn)


def _version(shape: Relation, lsn: int) -> SentVersion:
    return parse_version({**shape.describe(), "lsn": lsn})._replace(of_catalog=True)


def _differs(catalog: SourceCatalog, held: MirrorTable, version: SentVersion) -> bool:
    found = changes(held, version)
    if isinstance(found, Refill) or not found.none:
        return True
    nullable = {one.attnum: one.nullable for one in version.columns}
    constrained = any(nullable[one.attnum] != one.nullable for one in held.stored)
    return constrained or _are_others(catalog, held, version)


def _are_others(catalog: SourceCatalog, held: MirrorTable, version: SentVersion) -> bool:
    """Whether columns that the mirror computes are generated otherwise now."""
    with translated(f"reading the generated columns of {held.label}"):
        rows = catalog.session.execute(_GENERATED, (version.oid,)).fetchall()
    published = {one.attnum for one in version.columns}
    left_out = {name for name, _ in held.left_out}
    now = {at: sql for at, name, sql in rows if at not in published and name not in left_out}
    return now != {one.attnum: one.generated for one in held.columns if one.generated}


def _numbers(version: SentVersion) -> dict[str, int | None]:
    return {one.name: one.attnum for one in version.columns}
