"""Records of a batch, handed to the state database as they are.

Staged is the last record of each key, one row each, in a table of the session that the next batch
empties. What SQL cannot read of an image is rewritten here (``value_texts``); in
most tables nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdc.errors import StateError
from cdc.events.codes import DELETE, SNAPSHOT, TRUNCATE
from cdc.lsn import Position
from cdc.source.postgres import Connection
from jobs.state.batch.image_tables import expect_few_images, image_tables
from jobs.state.batch.sql import STAGED, STAGED_COLUMNS, STAGED_SQL, Shape, Traits
from jobs.state.mirrors.table import NOWHERE, MirrorTable
from jobs.state.values.value_texts import Reader, rewritten

_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_LITTERED_BYTES: Final = 1 << 18  # of pages that statements read; of large values 16 times as many
_HELD: Final = f"""
select mirror, greatest(pg_relation_size(o), pg_table_size(o) / 16),
       greatest(pg_relation_size(n), pg_table_size(n) / 16), pg_table_size('{STAGED}')
from (select distinct mirror, ('pg_temp.old_' || mirror)::regclass as o,
             ('pg_temp.new_' || mirror)::regclass as n from {STAGED}) s
""".encode()
_FOLDED: Final = [
    *("topic", "partition", "offset", "key", "op", "commit_lsn", "ordinal", "schema_id"),
    *("before", "after", "unchanged", "cause", "committed_us", "read_lsn"),
]
_TYPES: Final = ["int4", "int4", "int4", "text", "int8", "int8", "int8", "int4[]", "int8", "text"]


class RecordsNeededError(Exception):
    """A batch that tasks have staged can only be applied with its records at hand."""


class Record(NamedTuple):
    """The last change of a key in a batch, in each period of a table version. ``table`` is
    ``schema.table``.

    ``image`` is the JSON of ``after``, of ``before`` for a delete, None for TRUNCATE. ``unchanged``
    names the columns, as the event calls them, whose values the batch does not have, or only as a
    snapshot read them at ``read_lsn``. ``record`` is ``topic-partition-offset``. Records without a
    ``key`` are not folded. ``committed_us`` is in microseconds since 1970.
    """

    table: str
    op: str
    commit_lsn: int
    ordinal: int
    schema_id: str
    image: str | None
    unchanged: Sequence[str]
    record: str
    key: str | None
    committed_us: int | None = None
    read_lsn: int | None = None


class Fault(NamedTuple):
    """Why a record was not applied; nothing of it is in the images."""

    record: Record
    cause: str
    sqlstate: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror as batches know it. ``shapes`` are what events of each version, by ``schema_id``,
    call its columns. Events below ``fill_lsn`` are in its rows; what is below ``truncated`` is
    gone."""

    id: int
    table: MirrorTable
    fill_lsn: int
    truncated: Position
    shapes: Mapping[str, Shape]
    older: frozenset[str] = frozenset()
    """Versions that the table had before the one that the mirror is of."""
    statements: dict[object, bytes] = field(default_factory=dict, compare=False, repr=False)
    """What its batches run, by what they have of it: made once."""

    def follows(self, schema_id: str | None) -> bool:
        """Whether it has the columns of a version, or had them: there is nothing to follow first,
        as there is for a newer one, whose shape lacks what the mirror lacks."""
        is_own = schema_id == self.table.schema_id and schema_id in self.shapes
        return is_own or schema_id in self.older

    @property
    def every_shape(self) -> list[Shape]:
        """All shapes, in an order that every process has them in."""
        return list(dict.fromkeys(self.shapes[version] for version in sorted(self.shapes)))

    def statement(self, of: object, make: Callable[[], str]) -> bytes:
        if (found := self.statements.get(of)) is None:
            found = self.statements[of] = make().encode()
        return found


@dataclass(slots=True)
class Staged:
    """What a batch has of one mirror. ``relation`` (SQL) holds it; of what tasks staged there are
    no ``records``, only how many there are: ``elsewhere``."""

    mirror: Mirror
    shapes: list[Shape] = field(default_factory=list)
    records: dict[int, Record] = field(default_factory=dict)
    truncated: Position = NOWHERE
    """The newest TRUNCATE that the mirror has not carried out."""
    traits: Traits = field(default_factory=Traits)
    faults: list[Fault] = field(default_factory=list)
    relation: str = STAGED
    elsewhere: int = 0

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.records) or self.elsewhere

    @property
    def gone(self) -> Position:
        """What is not above it is no news."""
        return max(self.truncated, self.mirror.truncated)


def records_of(
    batch: pa.RecordBatch, topics: Mapping[str, str]
) -> Iterator[tuple[Record, str | None]]:
    """The records of rows of ``jobs.batch.folded_rows.SCHEMA``, each with why it is no event of
    ours, None for one that is. ``topics`` has the ``schema.table`` of each topic; rows of others
    are left out: their mirror has become stale while the stream still brings them."""
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in _FOLDED]
    for topic, part, at, key, op, lsn, n, schema, before, after, left, cause, us, read in zip(
        *columns, strict=True
    ):
        if (table := topics.get(topic)) is None:
            continue
        image = before if op == DELETE else after
        place, of = (lsn or 0, n or 0), f"{topic}-{part}-{at}"
        record = Record(table, op, *place, schema, image, left or (), of, key, us, read)
        yield record, cause if op is None else None


def stage(
    conn: Connection, mirrors: Mapping[str, Mirror], records: Iterable[Record]
) -> list[Staged]:
    """Stage the records of a batch, in the caller's transaction; mirrors are by ``schema.table``.

    Records of tables without a mirror are left out; so are those that nothing can be done with
    (``faults``).
    """
    clear(conn, mirrors)
    return copied(conn, STAGED, mirrors, records)


def copied(
    conn: Connection, relation: str, mirrors: Mapping[str, Mirror], records: Iterable[Record]
) -> list[Staged]:
    """Copy records into a table with the columns of ``STAGED``. Of another table they are only
    counted, and their shapes are numbered as everybody does (``Mirror.every_shape``)."""
    found: dict[str, _Rows] = {}
    statement = f"copy {relation} ({STAGED_COLUMNS}) from stdin"
    with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        copy.set_types(_TYPES)
        for number, record in enumerate(records):
            rows = found.get(record.table)
            if rows is None:
                if record.table not in mirrors:
                    continue
                mirror = mirrors[record.table]
                shapes = [] if relation == STAGED else mirror.every_shape
                rows = found[record.table] = _Rows(Staged(mirror, shapes, relation=relation))
            if (row := rows.row(number, record)) is not None:
                copy.write_row(row)
    return [rows.done() for rows in found.values()]


def clear(conn: Connection, mirrors: Mapping[str, Mirror]) -> None:
    """Forget what the batch before staged, and the images that were made of it.

    The server empties nothing at the end of a transaction: that is slow for many tables. Rows are
    deleted, and a table that has become large by that is truncated, which has plans made anew.
    """
    conn.execute(STAGED_SQL, prepare=True)
    held = conn.execute(_HELD, prepare=True).fetchall()
    known = {mirror.id: mirror.table for mirror in mirrors.values()}
    with conn.pipeline():
        for mirror_id, old_bytes, new_bytes, _ in held:
            for images, size in zip(image_tables(mirror_id), (old_bytes, new_bytes), strict=True):
                empty(conn, images, size)
            if max(old_bytes, new_bytes) > _LITTERED_BYTES and mirror_id in known:
                expect_few_images(conn, known[mirror_id], mirror_id)
        if held:
            empty(conn, STAGED, held[0][3])


def forget_images(conn: Connection, mirrors: Sequence[Mirror]) -> None:
    """Empty the tables of images of mirrors of which nothing is in ``STAGED``."""
    tables = [name for one in mirrors for name in image_tables(one.id)]
    if tables:
        conn.execute(f"truncate {', '.join(tables)}".encode())
    for one in mirrors:
        expect_few_images(conn, one.table, one.id)


def empty(conn: Connection, table: str, held_bytes: int) -> None:
    """Delete the rows of a table of the session that takes so many bytes; truncate a large one."""
    if held_bytes > _LITTERED_BYTES:
        conn.execute(f"truncate {table}".encode())
    elif held_bytes:
        conn.execute(f"delete from {table}".encode(), prepare=True)


class _Version(NamedTuple):
    """How records of a version are staged. ``places`` are those of the mirror's columns, by what
    events call them; ``rewrite``: all images of it."""

    number: int
    places: Mapping[str, int]
    readers: Mapping[str, Reader]
    rewrite: bool


class _Rows:
    """Makes records of one mirror rows of the table of staged ones."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._versions: dict[str, _Version] = {}
        self._partial = self._deletes = self._late = self._keyless = False

    def row(self, number: int, record: Record) -> tuple[object, ...] | None:
        """None for what is not staged: below the fill, or a fault."""
        staged, op = self._staged, record.op
        mirror = staged.mirror
        if record.commit_lsn < mirror.fill_lsn:
            return None
        if op == TRUNCATE:
            at = Position(record.commit_lsn, record.ordinal)
            if at > mirror.truncated:
                staged.truncated = max(staged.truncated, at)
            at_us = record.committed_us
            return number, mirror.id, -1, op, *at, at_us, None, None, None
        version = self._versions.get(record.schema_id) or self._version(record.schema_id)
        unchanged, image = None, record.image
        if record.unchanged or version.rewrite:
            try:
                left_out = record.unchanged if record.read_lsn is None else ()
                image = rewritten(image or "", version.readers, left_out)
            except _UNREADABLE as error:
                cause = f"a value has not the form of its type ({type(error).__name__})"
                staged.faults.append(Fault(record, cause))
                return None
            places = version.places
            unchanged = [places[name] for name in record.unchanged if name in places] or None
            self._partial |= unchanged is not None
        self._deletes |= op == DELETE
        self._late |= op == SNAPSHOT
        self._keyless |= record.key is None
        if staged.relation == STAGED:
            staged.records[number] = record
        else:
            staged.elsewhere += 1
        place = record.commit_lsn, record.ordinal, record.committed_us
        return number, mirror.id, version.number, op, *place, unchanged, record.read_lsn, image

    def done(self) -> Staged:
        repeats = self._keyless or len(self._versions) > 1
        self._staged.traits = Traits(self._partial, self._deletes, self._late, repeats)
        return self._staged

    def _version(self, schema_id: str) -> _Version:
        mirror, shapes = self._staged.mirror, self._staged.shapes
        shape = mirror.shapes.get(schema_id)
        if shape is None:
            raise StateError(
                f"{mirror.table.label}: events of table version {schema_id} arrived before the "
                "mirror had its columns",
                "start `headwater apply` again",
            )
        if shape not in shapes:
            shapes.append(shape)
        forms = [column.form for column in mirror.table.stored]
        sent = [(name, one) for name, one in zip(shape, forms, strict=True) if name is not None]
        version = _Version(
            shapes.index(shape),
            {name: place for place, name in enumerate(shape) if name is not None},
            {name: one.rewrite for name, one in sent if one.rewrite is not None},
            any(one.required for _, one in sent),
        )
        self._versions[schema_id] = version
        return version
