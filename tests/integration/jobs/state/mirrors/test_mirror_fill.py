"""A fill is exact: its rows and the changes at or above its LSN are the source's table.

Writers work at full speed while the mirror is filled. The stream begins before the fill, so it has
changes below the fill's LSN, which are in its rows, and above. Seeded: what a writer does is drawn.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from cdc.errors import RetryableError, SourceError, StateError
from jobs.state.mirrors.fill import fill
from jobs.state.mirrors.mirror_record import drop_mirror, read_mirrors
from tests.support.views.mirror_tables import MirrorSetting
from tests.support.waiting import wait_until

LABELS = ("public.t", "public.u")
SEEDS = range(12)


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[MirrorSetting]:
    made = MirrorSetting(database, store_database)
    made.execute(
        "create table t (id int primary key, n int, a text)",
        "create table u (id int primary key, t int, body text)",
        "alter table u alter body set storage external",
        "insert into t select i, 0, 'a' || i from generate_series(1, 3000) i",
        "insert into u select i, i, repeat('u', 3000) from generate_series(1, 300) i",
    )
    yield made
    made.close()


class Writer(threading.Thread):
    """Changes rows until it is told to stop; ``done`` counts its transactions."""

    def __init__(self, dsn: str, seed: int) -> None:
        super().__init__()
        self._dsn, self._random = dsn, random.Random(seed)
        self.ended = threading.Event()
        self.done = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as session:
                while not self.ended.is_set():
                    self._write(session)
                    self.done += 1
        except Exception as error:
            self.error = error

    def _write(self, session: psycopg.Connection[tuple[object, ...]]) -> None:
        draw = self._random.randint
        with session.transaction(force_rollback=draw(0, 9) == 0):
            for _ in range(draw(1, 4)):
                id = draw(1, 3200)
                match draw(0, 7):
                    case 0:
                        session.execute("delete from t where id = %s", (id,))
                    case 1:
                        session.execute("delete from u where id = %s", (id % 330,))
                    case 2 | 3:
                        session.execute(
                            "insert into t values (%s, 1, 'new') on conflict (id)"
                            " do update set n = t.n + 1",
                            (id,),
                        )
                    case 4:
                        session.execute(
                            "insert into u values (%s, 0, repeat(%s, 3000)) on conflict do nothing",
                            (id % 330, str(id % 10)),
                        )
                    case 5:
                        session.execute(
                            "update t set id = %s where id = %s and not exists"
                            " (select from t where id = %s)",
                            (id, draw(1, 3200), id),
                        )
                    case _:
                        session.execute("update u set t = t + 1 where id = %s", (id % 330,))


@contextmanager
def writing(dsn: str, seed: int) -> Iterator[list[Writer]]:
    writers = [Writer(dsn, seed * 10)]  # two would deadlock, now and then
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join()
            assert writer.error is None


def past(writers: list[Writer], transactions: int) -> None:
    goal = sum(writer.done for writer in writers) + transactions
    wait_until(
        lambda: sum(writer.done for writer in writers) >= goal, f"{transactions} transactions"
    )


def test_rows_and_stream_are_the_source_s_table(setting: MirrorSetting, database: str) -> None:
    setting.stream()
    for seed in SEEDS:
        with writing(database, seed) as writers:
            past(writers, 5)
            filled = setting.fill(*LABELS)
            past(writers, 20)
            assert len({one.lsn for one in filled}) == 1
            setting.catch_up()
        made = setting.apply(setting.changes())
        assert not [fault for one in made for fault in one.faults]
        for label in LABELS:
            setting.assert_equal(label)


def test_a_mirror_that_is_filled_anew_keeps_its_id_and_its_indexes(setting: MirrorSetting) -> None:
    setting.stream()
    (first, _) = setting.fill(*LABELS)
    setting.state.execute('create index "t by n" on mirror."public.t" (n)')
    setting.state.execute('create index on mirror."public.t" (lower(a), n)')
    indexes = "select indexname, indexdef from pg_indexes where tablename = 'public.t' order by 1"
    before = setting.state.execute(indexes).fetchall()
    setting.execute("update t set n = 5", "alter table t add x text default 'y'")
    (again, _) = setting.fill(*LABELS)
    assert (again.id, again.lsn > first.lsn) == (first.id, True)
    after = setting.state.execute(indexes).fetchall()
    assert [one for one in after if "UNIQUE" not in one[1]] == [
        one for one in before if "UNIQUE" not in one[1]
    ]
    setting.catch_up()
    setting.assert_equal("public.t")


def test_a_fill_that_is_killed_has_changed_nothing(setting: MirrorSetting) -> None:
    setting.stream()
    setting.fill(*LABELS)
    before = read_mirrors(setting.state)

    def killed(label: str, _rows: int) -> None:
        if label == "public.u":
            pid = setting.state.info.backend_pid
            setting.source.execute("select pg_terminate_backend(%s)", (pid,))

    setting.execute("update t set n = 9", "update u set t = 9")
    with pytest.raises(RetryableError):
        fill(setting.state, setting.config, list(map(setting.oid, LABELS)), on_rows=killed)
    setting.state = setting.reconnected()
    after = read_mirrors(setting.state)
    assert after["public.u"] == before["public.u"]
    assert after["public.t"].fill_lsn > before["public.t"].fill_lsn
    tables = "select tablename from pg_tables where schemaname = 'mirror' order by 1"
    assert [name for (name,) in setting.state.execute(tables)] == list(LABELS)
    for label in LABELS:
        setting.take(label)
    setting.catch_up()
    for label in LABELS:
        setting.assert_equal(label)


def test_a_table_that_cannot_be_mirrored_says_why(setting: MirrorSetting) -> None:
    setting.execute(
        "create table keyless (a int)",
        "alter table keyless replica identity full",
        "create table named (id int primary key, __lsn int)",
    )
    setting.stream()
    with pytest.raises(SourceError, match=r"source\.keys"):
        setting.fill("public.keyless")
    with pytest.raises(StateError, match="__lsn"):
        setting.fill("public.named")
    assert not read_mirrors(setting.state)


def test_a_mirror_that_is_dropped_leaves_nothing(setting: MirrorSetting) -> None:
    setting.stream()
    setting.fill(*LABELS)
    record = read_mirrors(setting.state)["public.t"]
    drop_mirror(setting.state, record)
    left = "select tablename from pg_tables where schemaname in ('mirror', 'tombstones')"
    assert {name for (name,) in setting.state.execute(left)} == {"public.u"}
    assert list(read_mirrors(setting.state)) == ["public.u"]
