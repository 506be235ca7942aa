"""Mirrors of a database in another one, kept by what capture would send, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from struct import pack
from typing import Any, Final
from uuid import uuid4

import psycopg

from cdc.config import Source
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.records import Record as Produced
from cdc.lsn import parse_lsn
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Relation
from cdc.source import postgres as source_postgres
from cdc.source.catalog import table_facts
from cdc.source.postgres import WIRE_OPTIONS
from cdc.source.relations import describe
from cdc.source.types import load_types
from cdc.topics import table_topic
from jobs.batch.images import Image, filled, read_row, text
from jobs.batch.task_fold import read_event
from jobs.state.batch import mirror_batch
from jobs.state.batch.image_tables import prepare_images
from jobs.state.batch.mirror_batch import Images
from jobs.state.batch.staging import Mirror, Record, stage
from jobs.state.mirrors.catalog_versions import SourceCatalog, follow_ahead, read_ahead
from jobs.state.mirrors.fill import Filled, fill
from jobs.state.mirrors.mirror_record import read_mirrors
from jobs.state.mirrors.mirror_versions import batch_mirror, follow_versions
from jobs.state.mirrors.schemas_topic import SentVersion, parse_version
from jobs.state.mirrors.table import MirrorTable
from jobs.state.mirrors.table_changes import Refill
from jobs.state.mirrors.types import MirrorTypes
from jobs.state.server.connection import connect
from jobs.state.server.migration import migrate
from verification.values.zoned_times import in_utc

NAME: Final = "shop"
CONTEXT: Final = SourceContext("1", NAME, "db")
PUBLICATION: Final = "headwater_shop"


class MirrorSetting:
    """A source that is streamed from the beginning, and the state database with its mirrors."""

    def __init__(
        self, source: str, state: str, keys: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        self.config = Source(name=NAME, dsn=source, tables=("public.*",), keys=keys or {})
        self.source = psycopg.connect(source, options=WIRE_OPTIONS, autocommit=True)
        self._state_dsn = state
        self.state = self.reconnected()
        migrate(self.state)
        self.mirrors: dict[str, Mirror] = {}
        self._slot = f"mirrored_{uuid4().hex[:12]}"
        self.transcriber = Transcriber(CONTEXT, self._resolve, self._lookup, lambda _: 1, 0)
        self.versions: dict[str, SentVersion] = {}
        self.refilled: list[str] = []
        """Why mirrors had to be filled anew."""

    def reconnected(self) -> psycopg.Connection[Any]:
        """Another session with the state database."""
        return connect(self._state_dsn, autocommit=True)

    def close(self) -> None:
        self.source.close()
        self.state.close()

    @contextmanager
    def as_client(self) -> Iterator[psycopg.Connection[Any]]:
        """The source's session, with a client's search path."""
        self.source.execute("set search_path to public")
        yield self.source
        self.source.execute("set search_path to pg_catalog")

    def execute(self, *statements: str) -> None:
        with self.as_client() as session:
            for statement in statements:
                session.execute(statement.encode())

    def stream(self, publication: str = "for all tables") -> None:
        """From here on changes are streamed."""
        self.execute(f"create publication {PUBLICATION} {publication}")
        slot = f"select pg_create_logical_replication_slot('{self._slot}', 'pgoutput')"
        self.execute(slot)

    def oid(self, table: str) -> int:
        row = self.source.execute("select %s::regclass::oid::int8", (table,)).fetchone()
        assert row is not None
        return int(row[0])

    def fill(self, *tables: str) -> list[Filled]:
        """Fill the mirrors of ``schema.table``s, and make them ready for batches."""
        filled = fill(self.state, self.config, [self.oid(table) for table in tables])
        for one in filled:
            self.take(one.table.label)
        return filled

    def fill_oid(self, oid: int) -> Filled:
        """The same for one table, by its OID."""
        (filled,) = fill(self.state, self.config, [oid])
        self.take(filled.table.label)
        return filled

    def take(self, label: str) -> Mirror:
        """The mirror as it is recorded, with versions that have its columns."""
        record = read_mirrors(self.state)[label]
        mirror = batch_mirror(record, {label: self.versions})
        prepare_images(self.state, mirror.table, mirror.id)
        self.mirrors[label] = mirror
        return mirror

    def changes(self) -> list[Record]:
        """What was committed since the last time, one record for each event."""
        rows = self.source.execute(
            "select lsn::text, data from pg_logical_slot_get_binary_changes(%s, null, null,"
            " 'proto_version', '1', 'publication_names', %s)",
            (self._slot, PUBLICATION),
        ).fetchall()
        for lsn, data in rows:
            at = parse_lsn(lsn)
            self.transcriber.feed(pack(">cQQQ", b"w", at, at, 0) + bytes(data))
        found = []
        for topic, produced in self.transcriber.take().records.items():
            for number, record in enumerate(produced):
                assert isinstance(record, dict)
                if not topic.endswith("__schemas") and record["value"] is not None:
                    found.append(event(record, f"{topic}-0-{number}"))
        return found

    def apply(self, records: Iterable[Record]) -> list[Images]:
        """One batch, folded as a micro-batch is."""
        with self.state.transaction():
            staged = stage(self.state, self.mirrors, fold(records))
            made = mirror_batch.images(self.state, staged)
            mirror_batch.write(self.state, made)
        for one in made:
            if one.truncated is not None:
                self.take(one.mirror.table.label)
        return made

    def follow(self, records: Iterable[Record]) -> None:
        """Give mirrors the columns that the events have, or fill them anew."""
        seen: dict[str, set[str]] = {}
        for record in records:
            mirror = self.mirrors.get(record.table)
            if mirror is not None and record.commit_lsn >= mirror.fill_lsn:
                seen.setdefault(record.table, set()).add(record.schema_id)
        versions = dict.fromkeys(seen, self.versions)
        records_ = read_mirrors(self.state)
        followed = follow_versions(self.state, self._connected, records_, versions, seen)
        for label, found in followed.items():
            if isinstance(found, Refill):
                self.refilled.append(found.reason)
                self.fill(label)
        for label in seen:
            self.take(label)

    def follow_source(self, label: str) -> None:
        """Give the mirror what the source's catalog has, as a build does that needs it."""
        record = read_mirrors(self.state)[label]
        with self._connected() as session:
            catalog = SourceCatalog(session, self.config, load_types(session))
            ahead = read_ahead(catalog, record, self.oid(label), lambda: self.versions)
            if ahead is None:
                return
            types = MirrorTypes(session, self.state)
            found = follow_ahead(self.state, session, types, ahead)
        if isinstance(found, Refill):
            self.refilled.append(found.reason)
            self.fill(label)
        self.take(label)

    def _connected(self) -> psycopg.Connection[Any]:
        return source_postgres.connect(self.config.dsn)

    def catch_up(self) -> list[Images]:
        """All changes since the last time, as one batch that has no faults."""
        changes = self.changes()
        self.follow(changes)
        made = self.apply(changes)
        assert not [fault for one in made for fault in one.faults]
        return made

    def mirrored(self, table: MirrorTable, order: str = "1") -> list[tuple[str | None, ...]]:
        """The mirror's rows as text."""
        names = ", ".join(f"{column.quoted}::text" for column in table.columns)
        query = f"select {names} from {table.relation} order by {order}"
        return self.state.execute(query.encode()).fetchall()

    def held(self, table: MirrorTable, order: str = "1") -> list[tuple[str | None, ...]]:
        """The source's rows as text, a ``timetz`` in UTC."""
        zoned = in_utc(table.columns)
        names = ", ".join(f"({zoned.get(c.name, c.quoted)})::text" for c in table.columns)
        query = f'select {names} from "{table.schema}"."{table.name}" order by {order}'
        return self.source.execute(query.encode()).fetchall()

    def assert_equal(self, label: str) -> None:
        table = self.mirrors[label].table
        assert sorted(map(repr, self.mirrored(table))) == sorted(map(repr, self.held(table)))

    def _resolve(self, message: RelationMessage, _xid: int, lsn: int) -> Relation:
        facts = table_facts(self.source, message.oid, PUBLICATION)
        configured = self.config.keys.get(f"{message.schema}.{message.table}", ())
        relation = describe(message, facts, load_types(self.source), configured)
        self.versions[relation.schema_id()] = parse_version({**relation.describe(), "lsn": lsn})
        return relation

    def _lookup(self, relation: Relation, key: Sequence[Any], _xid: int) -> Any:
        names = ", ".join(f'"{column.name}"' for column in relation.columns)
        where = " and ".join(f'"{name}"::text = %s' for name in relation.key)
        query = f'select {names} from "{relation.schema}"."{relation.table}" where {where}'
        found = self.source.execute(query.encode(), [part.decode() for part in key]).pgresult
        assert found is not None
        if not found.ntuples:
            return None
        return [found.get_value(0, i) for i in range(found.nfields)]


def event(record: Produced, name: str) -> Record:
    """One event, not folded."""
    value, key = record["value"], record["key"]
    assert value is not None
    parsed = json.loads(value)
    of_source = parsed["source"]
    read = read_event(key, value, 0)
    assert read is not None
    assert read.event is not None
    return Record(
        f"{of_source['schema']}.{of_source['table']}",
        parsed["op"],
        of_source["commit_lsn"],
        of_source["ordinal"],
        of_source["schema_id"],
        text(read.event.before if parsed["op"] == "d" else read.event.after),
        of_source.get("unchanged", ()),
        name,
        None if key is None else key.decode(),
    )


def fold(records: Iterable[Record]) -> list[Record]:
    """The last change of each key and period of a version, filled from earlier ones; the newest
    TRUNCATE."""
    groups: dict[tuple[str, str | None, int], list[Record]] = {}
    periods, versions = dict[str, int](), dict[str, str]()
    for record in sorted(records, key=lambda one: (one.commit_lsn, one.ordinal)):
        if versions.get(record.table) != record.schema_id:
            periods[record.table] = periods.get(record.table, 0) + 1
            versions[record.table] = record.schema_id
        of = (record.table, record.key, periods[record.table])
        groups.setdefault(of, []).append(record)
    folded = []
    for group in groups.values():
        *earlier, last = group
        if last.op == "u":
            known = [_image(one) for one in reversed(earlier)]
            image = filled(Image(last.image, last.unchanged), known)
            last = last._replace(
                image=image.after, unchanged=image.unchanged, read_lsn=image.read_lsn
            )
        folded.append(last)
    return folded


def _image(record: Record) -> Image:
    if record.op == "r":
        return read_row(record.image, record.commit_lsn)
    return Image(None if record.op == "d" else record.image, record.unchanged)


def topic(label: str) -> str:
    """Of ``schema.table``."""
    schema, _, table = label.partition(".")
    return table_topic(NAME, schema, table)
