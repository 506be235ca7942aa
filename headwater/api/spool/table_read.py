"""One table read at one exact LSN, its rows encoded as events, without Kafka.

As a snapshot on demand (``snapshots/rounds.py``), but nothing is recorded: what is interrupted
begins anew. A temporary slot exports the snapshot and is left at once, so no WAL is held while rows
are read. DDL on the table begins the read anew, at a later LSN.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import count
from typing import Final, Protocol

from cdc.columnar.snapshot import SnapshotEncoder
from cdc.config import Config
from cdc.errors import RetryableError
from cdc.events.envelope import SourceContext
from cdc.kafka.broker import Broker
from cdc.kafka.marks import own_mark, refuse_other_form
from cdc.protocol.relation import Relation
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from cdc.source.selection import Table
from cdc.source.slot import create_slot, identify
from cdc.source.types import load_types
from snapshots.chunk import ChunkReader, Round, Task, what_it_sees
from snapshots.plan import chunk_blocks, plan_table
from snapshots.rate import parse_rate
from snapshots.refusals import refuse_unfit
from snapshots.table_reader import Block, in_snapshot

_ROUNDS: Final = 5
"""So often is a table begun that DDL changes while it is read."""
_NUMBERS: Final = count(1)
_PIN: Final = """
select pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text
"""


class Receiver(Protocol):
    """Who gets the rows. What came before ``begin`` is void."""

    def begin(self, lsn: int, relation: Relation) -> None:
        """The rows that follow are as of ``lsn``."""

    def rows(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> None:
        """Some rows, as events."""


def read_table(config: Config, name: str, receiver: Receiver, going_on: Callable[[], None]) -> None:
    """Read a table, ``"schema"."table"``, whole. ``going_on`` is called between blocks and may
    raise.

    Raises ``SourceError`` for one that cannot be read exactly, ``LogError`` where the topics are of
    another database, ``RetryableError`` where a server is away, or DDL keeps coming.
    """
    with connect(config.source.dsn, application_name="headwater serve") as conn:
        (table,) = refuse_unfit(conn, config.source, [name])
        here = identify(conn)
    kafka = config.kafka
    with Broker(kafka.bootstrap_servers, kafka) as broker:
        refuse_other_form(config, own_mark(broker, config.source.name, here).form)
    context = SourceContext(version("headwater"), config.source.name, here.database)
    for _ in range(_ROUNDS):
        if _round(config, table, context, receiver, going_on):
            return
    raise RetryableError(f"{table.label} was altered {_ROUNDS} times while it was read")


def _round(
    config: Config,
    table: Table,
    context: SourceContext,
    receiver: Receiver,
    going_on: Callable[[], None],
) -> bool:
    """Whether all was read; False where DDL came."""
    with _exported(config, context) as (bare, pin):
        plan = plan_table(pin, table, load_types(pin), config.source, "")
        blocks = chunk_blocks(plan.leaves, 1, config.snapshot.chunk_mb, bare.rows_s, bare.bytes_s)
        receiver.begin(bare.lsn, plan.relation)
        encoding = _Encoding(context, bare.lsn, receiver, going_on)
        with connect(config.source.dsn, application_name="headwater serve") as conn:
            round_ = replace(bare, plans={plan.label: plan})
            reader = ChunkReader(round_, conn, encoding, encoding.publish)
            return not any(reader.read(Task((chunk,))).changed for chunk in plan.chunks(blocks))


@contextmanager
def _exported(config: Config, context: SourceContext) -> Iterator[tuple[Round, Connection]]:
    """A snapshot at a new LSN, which a session of ours keeps open."""
    source = config.source
    rows_s, bytes_s = parse_rate(config.snapshot.rate)
    slot_name = f"headwater_serve_{os.getpid()}_{next(_NUMBERS)}"
    slot_timeout_s = config.snapshot.slot_timeout_s
    with ExitStack() as stack:
        pin = stack.enter_context(connect(source.dsn, application_name="headwater serve"))
        exported = create_slot(source.dsn, slot_name, temporary=True, timeout_s=slot_timeout_s)
        with exported as slot:
            stack.enter_context(in_snapshot(pin, slot.snapshot_name))
            with translated("exporting the snapshot"):
                row = pin.execute(_PIN).fetchone()
        assert row is not None
        _, next_xid = what_it_sees(row[1])
        lsn = slot.consistent_point
        yield Round(source, config.kafka, context, lsn, row[0], next_xid, {}, rows_s, bytes_s), pin


class _Encoding:
    """Stands where a publisher stands that writes to Kafka."""

    dead_letters: Final = 0
    """A file takes rows of any size."""

    def __init__(
        self,
        context: SourceContext,
        lsn: int,
        receiver: Receiver,
        going_on: Callable[[], None],
    ) -> None:
        self._context, self._lsn = context, lsn
        self._receiver, self._going_on = receiver, going_on
        self._encoder: SnapshotEncoder | None = None

    def start_table(self, relation: Relation, topic: str, now_us: int) -> None:
        del topic
        self._encoder = SnapshotEncoder(relation, self._context, self._lsn, now_us)

    def publish(self, block: Block) -> None:
        self._going_on()
        if block.rows:
            assert self._encoder is not None, "start_table comes first"
            self._receiver.rows(*self._encoder.encode(*block))
