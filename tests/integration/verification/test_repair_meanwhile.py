"""What may come between a comparison and its repair, with a view in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc.errors import RetryableError
from cdc.kafka.broker import Broker, Offsets
from cdc.lsn import Position
from tests.support.commands.deployment import Deployment
from tests.support.sample_view import ODD, ROWS, TABLE, TYPES, MemoryView, add_loud
from verification.scope import published_sql
from views.table_versions import TableVersion


@dataclass
class MemoryLive:
    """A view in memory, as ``Repair`` writes it. ``meanwhile`` comes before it is held."""

    memory: MemoryView
    written: list[tuple[int, list[bytes], list[object]]] = field(default_factory=list)
    meanwhile: list[str] = field(default_factory=list)

    @contextmanager
    def held(self) -> Iterator[Offsets]:
        if self.meanwhile:
            self.memory.deployment.execute(*self.meanwhile)
            self.meanwhile.clear()
            self.memory.deployment.captured()
            self.memory.apply()
        yield self.memory.broker.end_offsets([self.memory.topic])

    def write(
        self,
        lsn: int,
        version: TableVersion,
        events: Sequence[tuple[bytes, bytes]],
        gone: Sequence[Mapping[str, object]],
    ) -> None:
        assert version.table == "things"
        self.written.append((lsn, [key for key, _ in events], [key["id"] for key in gone]))
        self.memory.bend = add_loud
        self.memory.apply()


@pytest.fixture
def memory(deployment: Deployment) -> Iterator[MemoryView]:
    deployment.execute(TYPES, TABLE, ROWS, ODD)
    deployment.init()
    with deployment.running("capture") as capture, Broker(deployment.bootstrap) as broker:
        deployment.captured(capture)
        yield MemoryView(deployment, broker, bend=add_loud)


def test_what_the_stream_brought_since_is_left_to_the_stream(memory: MemoryView) -> None:
    """A store that forgets deleted rows would take row 7 back."""

    def bend(rows: dict[int, Any]) -> None:
        add_loud(rows)
        rows.pop(7, None)
        rows[8].values["price"] = "0"
        rows[9000] = rows[9]._replace(key=(9000,), position=Position(1, 0),
                                      values={**rows[9].values, "id": 9000})  # fmt: skip

    memory.bend = bend
    live = MemoryLive(memory, meanwhile=["delete from things where id = 7"])
    report = memory.verify(repair=live)
    (first,) = live.written[:1]
    assert first[1] == [b'{"id":8}']
    assert [gone for _, _, gone in live.written if gone] == [[9000]]
    assert (report.missing, report.different, report.extra) == (1, 1, 1)
    assert (report.repaired, report.equal) == (3, True)


def test_a_key_that_the_source_cannot_read_is_deleted_all_the_same(memory: MemoryView) -> None:
    def bend(rows: dict[Any, Any]) -> None:
        add_loud(rows)
        for key in ("no number", None):
            values = {**rows[9].values, "id": key}
            rows[key] = rows[9]._replace(key=(key,), position=Position(1, 0), values=values)

    memory.bend = bend
    live = MemoryLive(memory)
    report = memory.verify(repair=live)
    assert [gone for _, _, gone in live.written if gone] == [["no number"]], "and NULL is no key"
    assert (report.extra, report.repaired, report.equal) == (2, 2, True)


def test_a_table_that_is_rewritten_before_it_is_locked_is_not_taken_for_empty(
    memory: MemoryView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewriting(*arguments: Any) -> str:
        memory.deployment.execute("alter table things alter column weight type float8")
        return published_sql(*arguments)

    monkeypatch.setattr("verification.source_rows.published_sql", rewriting)
    live = MemoryLive(memory)
    with pytest.raises(RetryableError, match="was rewritten while its snapshot was taken"):
        memory.verify(repair=live)
    assert live.written == []


def test_what_cannot_be_set_right_stays_wrong(memory: MemoryView) -> None:
    class Broken(MemoryLive):
        def write(self, *_: Any) -> None:
            """Says nothing, does nothing."""

    def bend(rows: dict[int, Any]) -> None:
        add_loud(rows)
        rows[8].values["price"] = "0"

    memory.bend = bend
    report = memory.verify(repair=Broken(memory))
    assert (report.different, report.repaired, report.equal) == (1, 0, False)
