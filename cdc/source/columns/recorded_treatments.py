"""Which columns are treated, by attnum, as the source remembers it (``headwater.treated_column``).

``source.columns`` has names, which another column may have been given since, and an entry may have
been removed. Whoever begins to publish records what it treats; whoever reads rows compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from cdc.config import Source
from cdc.errors import RetryableError, SourceError
from cdc.protocol.relation import Relation
from cdc.protocol.treatment import KEYED, Treatment
from cdc.source.errors import translated
from cdc.source.postgres import Connection

# Not by to_regclass, which demands a right on the schema; a relation's size demands none.
_IS_THERE: Final = """
select pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           and pg_catalog.has_table_privilege(c.oid, 'SELECT'),
       pg_catalog.pg_relation_size(c.oid) > 0
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'headwater' and c.relname = 'treated_column'
"""
_RECORDED: Final = """
select r.table_oid::bigint, r.attnum, r.treatment, a.attname,
       coalesce(pg_catalog.pg_partition_root(r.table_oid)::oid, r.table_oid)::bigint
from headwater.treated_column r left join pg_catalog.pg_attribute a
    on a.attrelid = r.table_oid and a.attnum = r.attnum and not a.attisdropped
where r.source = %s order by r.table_oid, r.attnum
"""
_RECORD: Final = """
insert into headwater.treated_column (source, table_oid, attnum, treatment)
select %s, %s::oid, attnum, treatment from unnest(%s::int[], %s::text[]) n (attnum, treatment)
on conflict (source, table_oid, attnum) do update set treatment = excluded.treatment
"""
_LIFT: Final = """
delete from headwater.treated_column where source = %s and table_oid = %s::oid and attnum = any(%s)
"""


class RecordedColumn(NamedTuple):
    """``treatment`` in words; ``name`` at present, None for one that is gone; ``root`` is the OID
    of the table that publishes it: a partition's root, or its own."""

    oid: int
    attnum: int
    treatment: str
    name: str | None
    root: int


def recorded(conn: Connection, source: Source) -> list[RecordedColumn] | None:
    """None where ``headwater init`` has not made the table yet, or nothing was ever recorded in it
    and the role may not read it. Raises ``SourceError`` for a role that may not and something was:
    it might send what is treated."""
    with translated("reading headwater.treated_column"):
        row = conn.execute(_IS_THERE).fetchone()
        if row is None or row == (False, False):
            return None
        if row == (False, True):
            raise SourceError(
                "source.columns: the role may not read headwater.treated_column, which has the "
                "columns that were treated before",
                "let the schema's owner run: GRANT USAGE ON SCHEMA headwater TO the role; GRANT "
                "SELECT, INSERT, UPDATE, DELETE ON headwater.treated_column TO the role",
            )
        return [RecordedColumn._make(row) for row in conn.execute(_RECORDED, (source.name,))]


def record(conn: Connection, source: Source, oid: int, treatments: Mapping[int, Treatment]) -> None:
    """Remember how columns of a table are treated, by attnum."""
    texts = list(map(str, treatments.values()))
    with translated("writing headwater.treated_column"):
        conn.execute(_RECORD, (source.name, oid, list(treatments), texts))


def lift(
    conn: Connection, source: Source, labels: Mapping[int, str], found: Sequence[RecordedColumn]
) -> list[RecordedColumn]:
    """Forget treatments that ``source.columns`` ends; what is left of them. ``labels`` are the
    captured tables, ``schema.table``, by OID."""
    ended = [
        one
        for one in found
        if one.name and one.root in labels and source.is_lifted(labels[one.root], one.name)
    ]
    with translated("writing headwater.treated_column"):
        for oid, columns in groupby(ended, lambda one: one.oid):
            conn.execute(_LIFT, (source.name, oid, [one.attnum for one in columns]))
    return [one for one in found if one not in ended]


def recorded_faults(
    source: Source, labels: Mapping[int, str], found: Iterable[RecordedColumn]
) -> Iterator[str]:
    """Why columns would be sent otherwise than it was promised: they have no entry, or another key
    has the name of theirs. Pure; ``labels`` as of ``lift``."""
    words = {str(one) for of in source.treated.values() for one in of.values()}
    keys = {(kind, name): fingerprint for kind, name, fingerprint in _keyed(words)}
    for kind, name, fingerprint in sorted({*_keyed(one.treatment for one in found)}):
        if keys.get((kind, name), fingerprint) != fingerprint:
            setting = "hash_keys" if kind == "hash" else "encryption_keys"
            yield (
                f"source.{setting}: {name} is not the key that values were treated with. Restore "
                "it, and give a new key another name."
            )
    for one in found:
        label = labels.get(one.root)
        if label and one.name and one.name not in source.columns.get(label, {}):
            yield (
                f"source.columns: {label}: {one.name} was treated ({one.treatment}), and has no "
                f'entry now. Add its entry, or {one.name} = "publish" to publish its values as '
                "they are."
            )


def _keyed(treatments: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Kind, name of the key and its fingerprint, of those that have a key."""
    for one in treatments:
        kind, _, more = one.partition(" ")
        if kind in KEYED:
            name, _, fingerprint = more.partition(" ")
            yield kind, name, fingerprint


def refuse_unrecorded(conn: Connection, source: Source, shape: Relation) -> None:
    """Compare how a table is to be treated with what capture does: its rows are about to be read.

    Raises ``SourceError`` for what ``recorded_faults`` finds, ``RetryableError`` while capture has
    not been started with the configuration.
    """
    if (found := recorded(conn, source)) is None:
        return
    if faults := "\n".join(recorded_faults(source, {shape.oid: shape.name}, found)):
        raise SourceError(faults)
    was = {one.attnum: one.treatment for one in found if one.oid == shape.oid}
    now = {one.attnum: str(one.treatment) for one in shape.columns if one.treatment}
    others = [c.name for c in shape.columns if now.get(c.attnum) != was.get(c.attnum or 0)]
    if others:
        raise RetryableError(
            f"source.columns: {shape.name}: capture has not been started yet with what is to be "
            f"done to {', '.join(sorted(others))}",
            "start capture again",
        )
