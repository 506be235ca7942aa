"""Histories kept by batches of the shared stream: as of any LSN they are what the source was.

Batches and the writing of the store are killed between every two steps.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.run.stream import batches
from jobs.run.views import histories
from jobs.state.batch.staging import Record
from jobs.state.batch.stream_offsets import advance
from jobs.state.histories.queue import added, make_up_for_history, waiting
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import Killed, split
from tests.support.views.histories import as_of
from tests.support.views.history_setting import KINDS, TRANSACTIONS, HistorySetting


@pytest.fixture
def setting(postgres: str, spark: SparkSession, tmp_path: Path) -> Iterator[HistorySetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = HistorySetting(source, state, spark, tmp_path / "lake")
        yield made
        made.close()


def test_as_of_any_lsn_they_are_what_the_source_was(setting: HistorySetting) -> None:
    generator = random.Random(3)
    setting.do("update orders set extra = 1 where id = 1")
    setting.add(*KINDS)
    setting.apply(setting.engine.mirrors.changes())
    setting.do("update orders set total = 4.5 where id = 4")  # between its begin and its load
    setting.do("insert into orders values (7, 7, 'seven', 0)", "delete from orders where id = 7")
    setting.apply(setting.engine.mirrors.changes())
    setting.moments = setting.moments[-1:]
    for one in setting.tables:
        one.load()
        one.keep()
    for statements in TRANSACTIONS:
        setting.do(*statements)
        for part in split(setting.engine.mirrors.changes(), generator):
            setting.apply(part)
        if generator.random() < 0.5:
            for one in setting.tables:
                one.drain()
    for one in setting.tables:
        one.drain()
        assert waiting(setting.engine.conn, one.record.id) == 0
    setting.check()


@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_every_two_steps(
    kind: str, setting: HistorySetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.add(kind)
    (table,) = setting.tables
    table.load()
    table.keep()
    for number, statements in enumerate(TRANSACTIONS):
        setting.do(*statements)
        changes = setting.engine.mirrors.changes()
        with monkeypatch.context() as patch:
            killed(patch, batches, "end_batch")  # queued, and the mirrors written
            with pytest.raises(Killed):
                setting.apply(changes)
        setting.begin_again()
        setting.apply(changes)
        for step in ("write_changes", "settle"):
            with monkeypatch.context() as patch:
                if step == "write_changes":
                    killed(patch, table.keeper.sink, step)
                else:
                    killed(patch, histories, step)
                with pytest.raises(Killed):
                    table.keeper.turn(setting.engine.conn)
            if number % 2:
                setting.begin_again()
        table.drain()
        setting.check()


def killed(patch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise Killed(name)

    patch.setattr(where, name, dies)


def test_columns_that_come_and_become_wider(setting: HistorySetting) -> None:
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("update orders set total = 8 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    setting.do(
        "alter table orders add column note2 text default 'x'",
        "alter table orders alter extra type bigint",
        "update orders set note2 = 'y' where id = 2",
    )
    followed(setting, setting.engine.mirrors.changes())
    setting.check()


def test_a_column_that_is_renamed_and_renamed_back_within_a_batch(
    setting: HistorySetting,
) -> None:
    """Its version comes back, and an update leaves out a value of the one in between."""
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    changes: list[Record] = []
    for statement, note in (
        ("update orders set note = repeat('one', 2000) where id = 4", "note"),
        ("alter table orders rename note to body", ""),
        ("update orders set body = repeat('two', 2000) where id = 4", "body"),
        ("update orders set total = 44 where id = 4", "body"),
        ("alter table orders rename body to note", ""),
        ("update orders set total = 45 where id = 4", "note"),
        ("update orders set total = 46 where id = 4", "note"),
    ):
        if note:
            setting.do(statement, note=note)
            changes += setting.engine.mirrors.changes()
        else:
            setting.engine.mirrors.execute(statement)
    assert len({one.schema_id for one in changes}) == 2
    followed(setting, changes)
    assert not setting.engine.mirrors.refilled
    setting.check()


def followed(setting: HistorySetting, changes: Sequence[Record]) -> None:
    """Changes of the source in one batch, once mirrors have the columns of their versions, and
    their histories written."""
    setting.engine.mirrors.follow(changes)
    setting.begin_again()
    setting.apply(changes)
    for one in setting.tables:
        one.drain()


def test_what_was_passed_over_is_made_up_for(setting: HistorySetting) -> None:
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    for statements in TRANSACTIONS[:3]:
        setting.do(*statements)
    setting.apply(setting.engine.mirrors.changes())
    tables, setting.tables = setting.tables, []
    setting.know()
    for statements in TRANSACTIONS[3:]:
        setting.do(*statements)
    setting.apply(setting.engine.mirrors.changes())  # nobody collects them
    setting.tables = tables
    setting.know()
    setting.do("update orders set total = 8 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    for one in tables:
        make_up_for_history(setting.engine.conn, one.history)
    setting.do("update orders set total = 9 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    for one in tables:
        turn = one.keeper.turn(setting.engine.conn)
        assert (turn.more, turn.reached) == (True, -1), "it lacks what was passed over"
        one.drain()
    setting.moments = [*setting.moments[:3], *setting.moments[-1:]]
    setting.check()
    for one in tables:  # nothing differs: nothing is added
        before = len(one.rows())
        batch = make_up_for_history(setting.engine.conn, one.history)
        one.drain()
        assert added(setting.engine.conn, one.history.id, batch) == 0
        assert len(one.rows()) == before


def test_a_key_that_was_passed_over_and_comes_back_before_what_other_tables_have(
    setting: HistorySetting,
) -> None:
    """Tables have topics of their own: the stream is not as far in one as in another."""
    setting.add(*KINDS)
    conn = setting.engine.conn
    for one in setting.tables:
        one.load()
        one.keep()
    tables, setting.tables = setting.tables, []
    setting.know()
    setting.do("delete from orders where id = 3")
    setting.apply(setting.engine.mirrors.changes())
    setting.do("insert into orders values (3, 30, 'again', 0)", "update orders set total = 7")
    advance(conn, 1 << 50)
    setting.tables = tables
    setting.know()
    for one in tables:
        make_up_for_history(conn, one.history)
        one.drain()
    setting.apply(setting.engine.mirrors.changes())
    for one in tables:
        one.drain()
    setting.moments = [setting.moments[-1], (1 << 60, setting.moments[-1][1])]
    setting.check()


def test_a_key_that_was_passed_over_and_comes_back_before_what_other_partitions_have(
    setting: HistorySetting,
) -> None:
    """The stream is not as far in one partition as in another: the delete is not later than what
    the mirror has of other keys."""
    setting.add(*KINDS)
    conn = setting.engine.conn
    for one in setting.tables:
        one.load()
        one.keep()
    tables, setting.tables = setting.tables, []
    setting.know()
    setting.do("delete from orders where id = 3", "update orders set total = 0 where id = 4")
    setting.apply(setting.engine.mirrors.changes())
    setting.do("insert into orders values (3, 30, 'again', 0)", "update orders set total = 40")
    late = [one for one in setting.engine.mirrors.changes() if one.key != '{"id":1}']
    setting.do("update orders set total = 41 where id = 1")
    setting.apply(setting.engine.mirrors.changes())
    setting.tables = tables
    setting.know()
    for one in tables:
        make_up_for_history(conn, one.history)
        one.drain()
    setting.apply(late)
    for one in tables:
        one.drain()
    setting.moments = [setting.moments[0], (1 << 60, setting.moments[-1][1])]
    setting.check()


def test_a_late_row_has_no_say_on_values_of_newer_rows(setting: HistorySetting) -> None:
    setting.add(*KINDS)
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("update orders set note = repeat('x', 5000) where id = 1")
    (old,) = setting.engine.mirrors.changes()
    setting.do("update orders set note = repeat('y', 5000) where id = 1")
    setting.apply([old, *setting.engine.mirrors.changes()])
    setting.do("update orders set total = 50 where id = 1")
    (lacking,) = (one for one in setting.engine.mirrors.changes() if one.unchanged == ["note"])
    setting.apply([old._replace(op="r", ordinal=0), lacking])
    for one in setting.tables:
        one.drain()
    setting.check()


def test_another_state_database_counts_from_the_beginning(setting: HistorySetting) -> None:
    """Its generations have ids that the lost one gave, too."""
    setting.add(*KINDS)
    conn = setting.engine.conn
    for one in setting.tables:
        one.load()
        one.keep()
    setting.do("update orders set total = 7")
    setting.apply(setting.engine.mirrors.changes())
    for one in setting.tables:
        one.drain()
        conn.execute(f"alter table queue.v{one.record.id} alter seq restart".encode())
    setting.begin_again()
    setting.do("update orders set total = 8")
    setting.apply(setting.engine.mirrors.changes())
    for one in setting.tables:
        one.drain()
    setting.check()


@pytest.mark.parametrize("step", ["", "note_adding", "write_changes", "settle", "note_added"])
def test_rows_that_somebody_changed_are_read_again(
    step: str, setting: HistorySetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted once, wherever that was interrupted."""
    setting.add("log")
    (table,) = setting.tables
    table.load()
    table.keep()
    held = DeltaTable(str(Path(setting.lake.path) / table.name))
    held.delete("order_id = 3")
    held.update({"total": "99"}, predicate="order_id = 1")
    batch = make_up_for_history(setting.engine.conn, table.history)
    with monkeypatch.context() as patch:
        if step:
            killed(patch, table.keeper.sink if step == "write_changes" else histories, step)
            with pytest.raises(Killed):
                table.drain()
    table.drain()
    assert added(setting.engine.conn, table.history.id, batch) == 2
    then = as_of("log", table.rows(), 1 << 60)
    assert {id_: int(row["total"]) for id_, row in then.items()} == {1: 1, 2: 2, 3: 3, 4: 4}
