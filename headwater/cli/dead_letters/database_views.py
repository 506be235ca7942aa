"""Dead letters of views that the state database keeps: parked rows, records not applied."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING

from cdc.errors import LogError
from headwater.cli.dead_letters.entry import Entry, Settled, row_key
from headwater.cli.dead_letters.registry_values import in_json
from headwater.cli.view.request import command, kept_by_state, result

if TYPE_CHECKING:
    from cdc.config import Config
    from jobs.state.server.connection import Connection


def entries(config: Config, views: Sequence[str]) -> dict[str, list[Entry]]:
    """What waits of each view. Raises ``StateError`` for a state that cannot be read."""
    from jobs.state.server.reader import reading_state

    with reading_state(config) as conn:
        return entries_in(conn, config, views)


def entries_in(
    conn: Connection | None, config: Config, views: Sequence[str]
) -> dict[str, list[Entry]]:
    """The same of a state database; nothing where there is none."""
    return {view: [] if conn is None else list(_of(conn, config, view)) for view in views}


def _of(conn: Connection, config: Config, view: str) -> Iterable[Entry]:
    from jobs.state.dead_letters.faulty_records import faulty_records
    from jobs.state.dead_letters.parked_keys import parked_keys
    from jobs.state.views.generation_keys import live_record
    from views.parse.table_references import tables_read

    record = live_record(conn, config, view)
    sql = config.views[view].sql if record is None else record.sql
    for one in [] if record is None else parked_keys(conn, record.id):
        assert record is not None, "its keys are read"
        assert one.since is not None, "it is parked"
        key = row_key(record.key, one.key)
        id_ = f"{view}-row-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        yield Entry(
            id_, view, view, key, one.cause, one.since.astimezone(UTC), value=key.encode(),
            values=one.key,
        )  # fmt: skip
    reads = {table.name for table in tables_read(view, sql)}
    for faulty in faulty_records(conn):
        if faulty.table in reads:
            topic = faulty.record.rsplit("-", 2)[0]
            yield Entry(
                faulty.record, view, topic, faulty.key, faulty.cause, faulty.since.astimezone(UTC),
                table=faulty.table,
            )  # fmt: skip


def readers(config: Config, tables: Collection[str]) -> set[str]:
    """The views that read one of these mirrored tables, ``schema.table``."""
    from jobs.state.views.view_record import tables_of

    return {
        name
        for name, view in config.views.items()
        if kept_by_state(config, [name]) and not tables_of(name, view.sql).isdisjoint(tables)
    }


def with_record(config: Config, entry: Entry) -> Entry:
    """With the record's value as Kafka has it; in a format with a registry as JSON. Raises
    ``LogError`` when it has it no more."""
    from cdc.kafka.broker import Broker
    from cdc.registry.schemas import registry_of

    topic, partition, offset = entry.id.rsplit("-", 2)
    at = int(offset)
    with closing(Broker(config.kafka.bootstrap_servers, config.kafka)) as broker:
        for one in broker.read(topic, int(partition), at, at + 1):
            return entry._replace(value=in_json(registry_of(config), one.value or b""))
    raise LogError(f"{entry.id}: Kafka no longer holds this record")


def settle(
    reload: Callable[[], Config], kind: str, view: str, wanted: Sequence[Entry] | None
) -> Settled:
    """``retry`` or ``discard`` some, by the apply that runs or here; None: all."""
    some = wanted or ()
    keys = [list(one.values) for one in some if one.is_row]
    records = [[one.table, one.key] for one in some if not one.is_row]
    return Settled(
        **result(reload, command(kind, view, all=wanted is None, keys=keys, records=records))
    )
