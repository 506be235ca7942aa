"""A large batch staged by Spark's tasks: each copies what it has folded into a table of its own.

A table belongs to one attempt of one task, is made and filled in one transaction, and is used only
if that attempt's answer has come. It is not logged, so after a crash of the server it is empty: its
rows are counted before they are used. Tables that nobody took are dropped before the next batch.

What is out of the ordinary is not told apart here (``odd``): the batch is staged once more, in
pieces, by whoever can name the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import RetryableError
from cdc.events.codes import TRUNCATE
from jobs.state.batch.sql import STAGED_DEFINITION, Traits
from jobs.state.batch.staging import (
    Mirror,
    Record,
    RecordsNeededError,
    Staged,
    copied,
    records_of,
)
from jobs.state.server.connection import Connection, connect, translated

_SCHEMA: Final = "staged"
_SAMPLE: Final = 20
"""So many of the oldest commit times are told."""


@dataclass(slots=True)
class OfMirror:
    """What a part has of one mirror: how many rows, and of which versions of the table."""

    rows: int
    versions: list[str]
    traits: list[bool]


@dataclass(slots=True)
class Part:
    """What a task has staged. ``records`` counts what was folded into its rows."""

    table: str
    odd: bool = False
    records: int = 0
    lsn: int = 0
    newest_us: int | None = None
    oldest_us: list[int] = field(default_factory=list)
    mirrors: dict[str, OfMirror] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.mirrors.values())


class Parts(NamedTuple):
    """The whole batch."""

    staged: list[Staged]
    tables: Sequence[str]
    records: int
    lsn: int
    newest_us: int | None
    oldest_us: Sequence[int]


@dataclass(frozen=True, slots=True)
class StagePart:
    """Stages the rows of a task; can be sent to another process. The mirrors are by
    ``schema.table``, ``topics`` has the table of each topic."""

    dsn: str = field(repr=False)
    mirrors: Mapping[str, Mirror]
    topics: Mapping[str, str]

    def __call__(self, task: int, batches: Iterator[pa.RecordBatch]) -> str:
        """What was staged, for ``parts_of``. Raises ``RetryableError`` for a state database that is
        away."""
        part = Part(f"{_SCHEMA}.p{task}_{uuid4().hex}")
        reading = _Reading(part, self.mirrors, self.topics)
        with closing(connect(self.dsn)) as conn, translated("staging a batch"):
            conn.execute(f"create unlogged table {part.table} {STAGED_DEFINITION}".encode())
            staged = copied(conn, part.table, self.mirrors, reading.records(batches))
            for one in staged:
                label = one.mirror.table.label
                versions = sorted(reading.versions.get(label, ()))
                part.mirrors[label] = OfMirror(one.elsewhere, versions, list(one.traits))
                part.odd |= bool(one.faults) or one.truncated > one.mirror.truncated
            conn.commit()
        return json.dumps(asdict(part))


class _Reading:
    """Records of a task's batches; what they amount to goes into ``part``."""

    def __init__(
        self, part: Part, mirrors: Mapping[str, Mirror], topics: Mapping[str, str]
    ) -> None:
        self._part, self._mirrors, self._topics = part, mirrors, topics
        self.versions: dict[str, set[str]] = {}

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
        for batch in batches:
            self._count(batch)
            for record, cause in records_of(batch, self._topics):
                mirror = self._mirrors.get(record.table)
                if mirror is None or cause is not None:
                    continue
                if record.commit_lsn >= mirror.fill_lsn and record.op != TRUNCATE:
                    if record.schema_id not in mirror.shapes or not mirror.follows(
                        record.schema_id
                    ):
                        self._part.odd = True
                        continue
                    self.versions.setdefault(record.table, set()).add(record.schema_id)
                yield record

    def _count(self, batch: pa.RecordBatch) -> None:
        part = self._part
        part.odd |= batch.column("op").null_count > 0
        part.records += pc.sum(batch.column("records")).as_py() or 0
        part.lsn = max(part.lsn, pc.max(batch.column("commit_lsn")).as_py() or 0)
        times = sorted(pc.drop_null(batch.column("committed_us")).to_pylist())
        if times:
            part.newest_us = max(part.newest_us or 0, times[-1])
            part.oldest_us = sorted([*part.oldest_us, *times[:_SAMPLE]])[:_SAMPLE]


def stage_part(dsn: str, mirrors: Mapping[str, Mirror], topics: Mapping[str, str]) -> StagePart:
    """What tasks stage by, with nothing in it that only this process needs. A version is numbered
    by its place among all of the mirror's, so that all tasks call it the same."""
    bare = {label: replace(one, statements={}) for label, one in mirrors.items()}
    return StagePart(dsn, bare, dict(topics))


def open_parts(conn: Connection) -> None:
    """Drop the tables that nobody took; in a transaction of its own."""
    with translated("dropping what tasks have staged"), conn.transaction():
        conn.execute(f"create schema if not exists {_SCHEMA}".encode())
        query = (
            b"select oid::regclass::text from pg_catalog.pg_class "
            b"where relnamespace = %s::regnamespace and relkind = 'r'"
        )
        drop_parts(conn, [name for (name,) in conn.execute(query, (_SCHEMA,))])


def drop_parts(conn: Connection, tables: Sequence[str]) -> None:
    """Drop some tables, in the caller's transaction."""
    if tables:
        conn.execute(f"drop table if exists {', '.join(tables)}".encode())


def parts_of(conn: Connection, answers: Iterable[str], mirrors: Mapping[str, Mirror]) -> Parts:
    """The batch that tasks have staged, in the transaction that applies it.

    Raises ``RecordsNeededError`` for one that has to be staged with its records at hand, and
    ``RetryableError`` where the server has lost some of it.
    """
    parts = [_part(json.loads(answer)) for answer in answers]
    if any(part.odd for part in parts):
        raise RecordsNeededError
    for part in parts:
        row = conn.execute(f"select count(*) from {part.table}".encode()).fetchone()
        if row is None or row[0] != part.rows:
            raise RetryableError(
                "the state database has lost the staged records of a batch",
                "wait: it is staged again",
            )
    union = " union all ".join(f"select * from {part.table}" for part in parts)
    staged = [
        _staged(mirrors[label], found, f"({union})") for label, found in _by_mirror(parts).items()
    ]
    times = [part.newest_us for part in parts if part.newest_us is not None]
    return Parts(
        staged,
        [part.table for part in parts],
        sum(part.records for part in parts),
        max((part.lsn for part in parts), default=0),
        max(times, default=None),
        sorted(at for part in parts for at in part.oldest_us)[:_SAMPLE],
    )


def _part(found: dict[str, Any]) -> Part:
    mirrors = {label: OfMirror(**one) for label, one in found.pop("mirrors").items()}
    return Part(**found, mirrors=mirrors)


def _by_mirror(parts: Iterable[Part]) -> dict[str, list[OfMirror]]:
    found: dict[str, list[OfMirror]] = {}
    for part in parts:
        for label, one in part.mirrors.items():
            found.setdefault(label, []).append(one)
    return found


def _staged(mirror: Mirror, found: Sequence[OfMirror], relation: str) -> Staged:
    versions = {version for one in found for version in one.versions}
    traits = Traits(*map(any, zip(*(one.traits for one in found), strict=True)))
    if len(versions) > 1:
        if traits.partial:  # a value may have to be taken from a row of another version
            raise RecordsNeededError
        traits = traits._replace(repeats=True)
    rows = sum(one.rows for one in found)
    return Staged(mirror, mirror.every_shape, traits=traits, relation=relation, elsewhere=rows)
