"""What of a table is in Kafka before its rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from cdc.events.envelope import SourceContext
from cdc.protocol.relation import Column, Relation, TypeInfo
from snapshots.job import Job
from snapshots.ledger import Chunk, Ledger, TableRecord
from snapshots.plan import Leaf, TablePlan
from snapshots.publisher import SnapshotPublisher
from snapshots.replanning import _begin

INT4 = TypeInfo(23, "pg_catalog", "int4", "base", "int4")
RELATION = Relation(1, "public", "t", "d", (Column("id", INT4, -1, True, False, 1),), ("id",))
SCHEMAS, TOPIC = "shop.__schemas", "shop.public.t"


class Slow:
    """A producer of which Kafka has what it had when it was last waited for."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.ahead_of: dict[str, set[str]] = {}
        self._sent: list[str] = []

    def send(self, topic: str, keys: Sequence[Any], *_: Any) -> None:
        self.ahead_of.setdefault(topic, set(self.there))
        self._sent += [topic] * len(keys)

    def flush(self) -> None:
        self.there, self._sent = self.there + self._sent, []


class Records:
    """A ledger that is told of a table."""

    chunks: Sequence[Chunk] = ()

    def plan(self, _: TableRecord, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks


class Settings:
    workers, chunk_mb = 1, 32
    rows_s = bytes_s = float("inf")
    partitions = {TOPIC: 2}  # noqa: RUF012


@pytest.mark.parametrize("used", [False, True])
def test_the_description_is_there_before_whatever_names_it(used: bool) -> None:
    """Rows come from other processes. A TRUNCATE names it, too: one that cannot be read stops
    whoever reads the topic."""
    producer, ledger = Slow(), Records()
    publisher = SnapshotPublisher(cast(Any, producer), SourceContext("1", "shop", "db"), 8000)
    plan = TablePlan(1, RELATION, TOPIC, None, (), (Leaf(1, "ONLY t", "16384", 10, 0, True),))
    _begin(cast(Job, Settings()), cast(Ledger, ledger), publisher, plan, used)
    assert ledger.chunks
    assert producer.there == [SCHEMAS, *([TOPIC] * 2 if used else [])]
    assert producer.ahead_of.get(TOPIC, {SCHEMAS}) == {SCHEMAS}
