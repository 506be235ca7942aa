"""A large batch staged in parts by others than the session that applies it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Sequence
from typing import cast

import pyarrow as pa
import pytest

from cdc.errors import RetryableError
from cdc.kafka.range_reader import Stretch
from jobs.batch.task_parts import Part
from jobs.run.views import view_keeper
from jobs.state.batch.staged_parts import StagePart, stage_part
from jobs.state.batch.staging import Record, RecordsNeededError
from jobs.state.batch.stream_offsets import read_progress
from jobs.state.server.connection import connect
from tests.support.servers.postgres import fresh_database
from tests.support.views.engine_setting import EngineSetting

SCHEMA = """
create table users (id int primary key, name text, born date);
create table orders (id int primary key, user_id int not null, total numeric(12,2), note text);
alter table orders alter column note set storage external;
insert into users select i, 'u' || i, '2000-01-01' from generate_series(1, 20) i;
insert into orders select i, i % 20, i, repeat('n' || i, 1500) from generate_series(1, 200) i;
"""
JOINED = (
    "select o.id, o.total, o.note, u.name, u.born from orders o join users u on u.id = o.user_id"
)
COUNTED = "select user_id, count(*) n, sum(total) total from orders group by user_id"


@pytest.fixture
def setting(postgres: str) -> Iterator[EngineSetting]:
    with fresh_database(postgres) as source, fresh_database(postgres) as state:
        made = EngineSetting(source, state, SCHEMA)
        made.add("joined", JOINED, ["id"])
        made.add("counted", COUNTED, ["user_id"])
        yield made
        made.close()


def task(setting: EngineSetting) -> StagePart:
    made = stage_part(setting._state, *setting.batches.staging)
    return cast(StagePart, pickle.loads(pickle.dumps(made)))  # as tasks are given it


def staged(setting: EngineSetting, table: pa.Table, tasks: int = 2) -> list[str]:
    """What tasks say of the rows, each key's with one of them."""
    found = []
    for number in range(tasks):
        part = Part(Stretch("", 0, 0, 0), number, tasks)
        mine = [part.has(key and key.encode(), 0) for key in table.column("key").to_pylist()]
        rows = table.filter(pa.array(mine))
        found.append(task(setting)(number, iter(rows.to_batches(max_chunksize=7))))
    return found


def tables(setting: EngineSetting) -> list[str]:
    query = "select relname from pg_class where relnamespace = 'staged'::regnamespace"
    return [name for (name,) in setting.conn.execute(query).fetchall()]


def apply_by_tasks(setting: EngineSetting, records: Sequence[Record]) -> None:
    begin, end, table = setting.table(records)
    setting.batches.drop_staged()
    applied = setting.batches.apply_staged(begin, end, staged(setting, table), ())
    assert applied is not None
    assert applied.records == len(table)
    assert applied.offsets == end
    assert tables(setting) == []
    again = setting.batches.apply_staged(begin, end, staged(setting, table), ())
    assert again is None
    setting.batches.drop_staged()


def change(setting: EngineSetting, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        id_, user = chance.randint(1, 260), chance.randint(1, 25)
        setting.mirrors.execute(
            chance.choice((
                f"insert into orders values ({id_}, {user}, 1, 'new') on conflict do nothing",
                f"update orders set total = total + 1 where id = {id_}",  # leaves the note out
                f"update orders set user_id = {user}, note = 'x' where id = {id_}",
                f"delete from orders where id = {id_}",
                f"update users set name = name || '!' where id = {user}",
                f"delete from users where id = {user}",
                f"insert into users values ({user}, 'back', null) on conflict do nothing",
            ))
        )  # fmt: skip


def test_views_are_what_the_source_computes_also_after_small_batches_between(
    setting: EngineSetting,
) -> None:
    for seed in range(4):
        change(setting, seed)
        apply_by_tasks(setting, setting.mirrors.changes())
        setting.keep()
        setting.check()
        change(setting, 100 + seed)
        setting.step()
        setting.check()
    setting.mirrors.assert_equal("public.orders")
    setting.mirrors.assert_equal("public.users")


def test_a_late_row_of_a_snapshot_has_no_say_on_what_updates_leave_out(
    setting: EngineSetting,
) -> None:
    setting.mirrors.execute("update orders set note = repeat('o', 3000) where id < 9")
    read = [one._replace(op="r", ordinal=0) for one in setting.mirrors.changes()]
    setting.mirrors.execute("update orders set note = repeat('n', 3000) where id < 9")
    setting.apply(setting.mirrors.changes())
    setting.mirrors.execute("update orders set total = 50 where id < 9")
    lacking = setting.mirrors.changes()
    assert {tuple(one.unchanged) for one in lacking} == {("note",)}
    apply_by_tasks(setting, [*read, *lacking])
    setting.keep()
    setting.check()


def test_rows_of_many_keys_are_made_together(
    setting: EngineSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_keeper, "_A_BACKLOG", 20)
    monkeypatch.setattr(view_keeper, "MANY_KEYS", 150)
    for one in setting.views.values():
        one.keeper.keys_at_most = 10
    changed = "update users set name = name || '?'"
    setting.mirrors.execute(changed, "delete from orders where id < 5")
    setting.apply(setting.mirrors.changes())
    turn = setting.views["joined"].keeper.turn(setting.conn)
    assert (turn.keys, turn.more) == (150, True)
    setting.keep()
    setting.check()
    setting.mirrors.execute(changed)
    setting.apply(setting.mirrors.changes())
    written = setting.views["joined"].store.written
    setting.mirrors.execute("update users set name = rtrim(name, '?') || '?'")  # back for all
    setting.apply(setting.mirrors.changes())
    setting.keep()
    assert setting.views["joined"].store.written == written  # what is as it was is not written
    setting.check()


def test_only_finished_attempts_count_and_nothing_of_the_others_stays(
    setting: EngineSetting,
) -> None:
    setting.batches.drop_staged()
    change(setting, 1)
    begin, end, table = setting.table(setting.mirrors.changes())

    def killed() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches(max_chunksize=7)
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        task(setting)(0, killed())
    assert tables(setting) == []
    answers = staged(setting, table)
    staged(setting, table)  # attempts whose answers came too late
    assert setting.batches.apply_staged(begin, end, answers, ()) is not None
    assert len(tables(setting)) == 2
    setting.batches.drop_staged()
    assert tables(setting) == []
    setting.keep()
    setting.check()


@pytest.mark.parametrize(
    "statement",
    [
        "truncate orders",
        "alter table users add column more int; insert into users values (99, 'v2', null, 1)",
    ],
)
def test_what_is_not_as_all_other_records_needs_the_records(
    setting: EngineSetting, statement: str
) -> None:
    setting.batches.drop_staged()
    setting.mirrors.execute(*statement.split("; "))
    records = setting.mirrors.changes()
    setting.know()  # a version may be described before a batch has events of it
    begin, end, table = setting.table(records)
    before = read_progress(setting.conn)
    with pytest.raises(RecordsNeededError):
        setting.batches.apply_staged(begin, end, staged(setting, table), ())
    assert read_progress(setting.conn) == before
    setting.mirrors.follow(records)
    setting.know()
    setting.batches.apply(begin, end, table)
    setting.keep()
    setting.check()


def test_a_value_that_does_not_fit_needs_the_records(setting: EngineSetting) -> None:
    setting.batches.drop_staged()
    change(setting, 3)
    setting.mirrors.execute("insert into orders values (900, 1, 1, 'n')")
    records = setting.mirrors.changes()
    faulty = next(i for i, one in enumerate(records) if one.key == '{"id":900}')
    image = '{"id": 7000000000000, "user_id": 1, "total": "1.00", "note": "n"}'
    records[faulty] = records[faulty]._replace(image=image)
    begin, end, table = setting.table(records)
    with pytest.raises(RecordsNeededError):
        setting.batches.apply_staged(begin, end, staged(setting, table), ())
    applied = setting.batches.apply(begin, end, table)
    assert applied is not None
    assert [fault.record.record for fault in applied.faults] == [records[faulty].record]
    begin, end, table = setting.table([])
    end["shop.public.orders"] = {0: end["shop.public.orders"][0] + 1}
    with pytest.raises(RecordsNeededError):  # a record that waits may have to be compared with
        setting.batches.apply_staged(begin, end, [], ())


def test_what_the_server_has_lost_is_staged_again(setting: EngineSetting) -> None:
    setting.batches.drop_staged()
    change(setting, 5)
    begin, end, table = setting.table(setting.mirrors.changes())
    answers = staged(setting, table)
    with connect(setting._state, autocommit=True) as other:
        other.execute(f"truncate staged.{tables(setting)[0]}")  # as after a crash
    with pytest.raises(RetryableError, match="lost"):
        setting.batches.apply_staged(begin, end, answers, ())
    assert setting.batches.apply_staged(begin, end, staged(setting, table), ()) is not None
    setting.keep()
    setting.check()
