"""A view built from a snapshot that was read at several LSNs: it was interrupted, or grew old."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bootstrap.build import build
from bootstrap.build_parts import Taken
from cdc.topics import partition_for
from tests.support.events.events import snapshot
from tests.support.events.written_topics import PARTITIONS, V1, row
from tests.support.servers.stores import FEW, KINDS, Store
from tests.support.views.bootstraps import Setting
from tests.support.views.snapshot_log import Table, TableSnapshots

LARGE = "large " * 1000


@pytest.fixture(params=FEW)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return KINDS[request.param].make(request, tmp_path)


class InterruptedSnapshots(TableSnapshots):
    """The lower half of the rows is read at L, then it is interrupted; the upper half and the
    versions that L does not see are read at a later LSN."""

    def __init__(self, table: Table, between: Callable[[], set[int]]) -> None:
        super().__init__(table)
        self.between = between

    def finish(self, snapshot_id: str) -> Taken:
        (topic,) = self.topics(snapshot_id).values()
        first, rows = self._rows[snapshot_id]
        half = len(rows) // 2
        records = [(first, values) for id_, values in rows.items() if id_ < half]
        changed = self.between()
        self.table.lsn += 8
        second = self.table.lsn
        records += [
            (second, values)
            for id_, values in self.table.rows.items()
            if id_ >= half or id_ in changed
        ]
        for lsn, values in records:
            _, value = snapshot(lsn, values, V1.schema_id())
            key = json.dumps({"id": values["id"]}, separators=(",", ":")).encode()
            self.table.log.send(topic, partition_for(key, PARTITIONS), key, value)
        return Taken((topic,), (first, second), len(records), False)


def test_a_large_value_that_only_the_later_reading_has_is_kept(setting: Setting) -> None:
    """Its streamed updates carry none: those below the last LSN are in the rows, those above keep
    what the rows brought."""
    table = setting.table
    table.write(*(row(i, LARGE + str(i)) for i in range(40)))

    def between() -> set[int]:
        table.touch(1)  # was read, is read again
        table.delete(2)  # was read, and only the stream says that it is gone
        table.write(row(3, LARGE + "changed"), row(25, LARGE + "changed before it was read"))
        table.touch(3, 30)
        table.delete(31)
        table.write(row(31, LARGE + "again"), row(100, LARGE + "new"))
        return {1, 3}

    setting.snapshots = InterruptedSnapshots(table, between)
    table.forget_history()
    table.touch(0, 20)
    built = build(setting.kit())
    assert built.live
    assert setting.shown() == setting.expected()
    table.touch(1, 3, 30, 100)
    table.delete(3)
    setting.apply_now()
    assert setting.shown() == setting.expected()
