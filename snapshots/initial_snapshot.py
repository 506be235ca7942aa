"""The initial snapshot: the tables as they were when the slot began, published before the stream.

    begun ─▶ slot + exported snapshot at L ─▶ chunks ─▶ all acknowledged as of L, or of a later L

The first round reads in the capture slot's own snapshot; the stream begins at its L. A run that was
interrupted leaves ``running``, the slot and the chunks that are in Kafka. The next one keeps all of
them and reads the rest at a later LSN: the rows stand above changes that are still to be streamed,
which positions settle. Only what can no longer be trusted starts over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import time_ns
from types import MappingProxyType

from cdc.config import Source
from cdc.lsn import format_lsn
from cdc.source.postgres import Connection, connect
from cdc.source.selection import Table
from cdc.source.slot import slot_state
from cdc.source.types import load_types
from snapshots.ledger import Ledger
from snapshots.plan import plan_table
from snapshots.publisher import SnapshotPublisher
from snapshots.state import SnapshotState
from snapshots.table_reader import in_snapshot


def cannot_go_on(conn: Connection, known: SnapshotState, slot_name: str) -> str:
    """Why an interrupted initial snapshot has to start over; ``""`` when it can go on."""
    points = Ledger(conn, known.id).points()
    if not points:
        return "nothing of it is recorded"
    if known.slot != slot_name:
        return f"its slot was {known.slot}"
    slot = slot_state(conn, slot_name)
    if slot is None or slot.lost:
        return f"slot {slot_name} is {'lost' if slot else 'gone'}"
    if slot.confirmed_flush != min(points):
        return f"slot {slot_name} is no longer at {format_lsn(min(points))}"
    return ""


def lost_in_kafka(
    ledger: Ledger, ends: Mapping[str, int], beside: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Forget tables of whose rows Kafka holds fewer than it acknowledged; their names.

    ``ends`` has the number of records that were ever written to each topic, ``beside`` the second
    topic of tables, ``schema.table``, that have one.
    """
    held, rows = ledger.tables(), Counter[str]()

    def topics(label: str) -> list[str]:
        return [topic for topic in (held[label].topic, beside.get(label)) if topic]

    for chunk in ledger.chunks():
        rows.update(dict.fromkeys(topics(chunk.label), chunk.rows))
    lost = [
        table
        for label, table in held.items()
        if table.topic and any(ends.get(topic, 0) < rows[topic] for topic in topics(label))
    ]
    ledger.forget(lost)
    return [table.label for table in lost]


def publish_descriptions(
    source: Source, tables: Sequence[Table], publisher: SnapshotPublisher, snapshot_name: str
) -> None:
    """What the tables look like, without their rows."""
    with (
        connect(source.dsn, application_name="headwater snapshot") as conn,
        in_snapshot(conn, snapshot_name),
    ):
        types = load_types(conn)
        for table in tables:
            plan = plan_table(conn, table, types, source, "")
            publisher.describe(plan.relation, time_ns() // 1000)
    publisher.finish()
