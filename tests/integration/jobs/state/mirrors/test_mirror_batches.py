"""Batches on mirrors: what is news by position, what goes, what stays away, what is at fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.state.batch.image_tables import image_tables
from jobs.state.batch.mirror_batch import Images, images, write
from jobs.state.batch.staging import Record, stage
from jobs.state.mirrors.mirror_record import expire_tombstones, read_mirrors, sizes
from tests.support.views.mirror_tables import MirrorSetting

LABEL = "public.t"
LARGE = "x" * 9_000


@pytest.fixture
def table(setting: MirrorSetting) -> MirrorSetting:
    """Ten rows, mirrored."""
    setting.execute(
        "create table t (id int primary key, a text, b int[])",
        "insert into t select i, 'a' || i, array[i] from generate_series(1, 10) i",
    )
    setting.stream()
    setting.fill(LABEL)
    return setting


def record(setting: MirrorSetting, op: str, id: int, at: tuple[int, int], **values: Any) -> Record:
    """A record of table t by hand; ``at`` is behind the fill's LSN."""
    mirror = setting.mirrors[LABEL]
    image = json.dumps({"id": id, "a": f"{op}{id}", "b": None} | values)
    lsn, schema_id = mirror.fill_lsn + at[0], mirror.table.schema_id
    name = f"t-0-{at[0]}.{at[1]}"
    return Record(LABEL, op, lsn, at[1], schema_id, image, (), name, f'{{"id":{id}}}')


def values_of(setting: MirrorSetting) -> dict[str | None, str | None]:
    return {row[0]: row[1] for row in setting.mirrored(setting.mirrors[LABEL].table)}


def test_images_are_the_rows_before_and_after(table: MirrorSetting) -> None:
    table.execute(
        "update t set a = 'new' where id = 1",
        "delete from t where id = 2",
        "insert into t values (11)",
    )
    mirror = table.mirrors[LABEL]
    with table.state.transaction():
        made = images(table.state, stage(table.state, table.mirrors, table.changes()))
        old, new = (
            table.state.execute(f"select id, a, __lsn, __ordinal from {name} order by id".encode())
            for name in image_tables(mirror.id)
        )
        assert [row[:2] for row in old] == [(1, "a1"), (2, "a2")]
        found = new.fetchall()
        assert [row[:2] for row in found] == [(1, "new"), (11, None)]
        assert all(row[2] > mirror.fill_lsn and row[3] == 1 for row in found)
        assert (made[0].old, made[0].new) == (2, 2)
        write(table.state, made)
    table.assert_equal(LABEL)


def test_what_is_not_newer_changes_nothing(table: MirrorSetting) -> None:
    table.apply([record(table, "u", 1, (10, 2)), record(table, "d", 2, (10, 1))])
    (made,) = table.apply(
        [record(table, "u", 1, (10, 1), a="older"), record(table, "u", 3, (-1, 5), a="in the fill")]
    )
    assert (made.old, made.new) == (0, 0)
    (made,) = table.apply([record(table, "u", 1, (10, 2), a="again")])
    assert (made.old, made.new) == (0, 0)
    assert values_of(table)["1"] == "u1"
    assert "2" not in values_of(table)
    assert values_of(table)["3"] == "a3"


def test_a_snapshot_row_behind_its_delete_stays_away(table: MirrorSetting) -> None:
    table.apply([record(table, "d", 2, (20, 1)), record(table, "d", 77, (20, 2))])
    late = [record(table, "r", id, (15, 0)) for id in (2, 77, 78)]
    (made,) = table.apply(late)
    assert (made.old, made.new) == (0, 1)
    (made,) = table.apply([record(table, "r", 2, (30, 0), a="at a later LSN")])
    assert (made.old, made.new) == (0, 1)
    assert values_of(table)["2"] == "at a later LSN"
    assert not {"77"} & values_of(table).keys()
    assert expire_tombstones(table.state, table.mirrors[LABEL].table, 3600) == 0
    assert expire_tombstones(table.state, table.mirrors[LABEL].table, -1) == 2
    (made,) = table.apply([record(table, "r", 77, (15, 0))])
    assert made.new == 1


def test_a_truncate_takes_what_is_below_it_once(table: MirrorSetting) -> None:
    truncate = record(table, "t", 0, (30, 1))._replace(image=None, key=None)
    above = record(table, "c", 5, (30, 2), a="above")
    (made,) = table.apply([truncate, above, record(table, "u", 6, (29, 1))])
    assert (made.old, made.new) == (10, 1)
    assert values_of(table) == {"5": "above"}
    found = read_mirrors(table.state)[LABEL]
    assert found.truncated == (found.fill_lsn + 30, 1)
    again = [truncate, record(table, "u", 7, (29, 9), a="below it"), record(table, "c", 8, (31, 1))]
    (made,) = table.apply(again)
    assert (made.old, made.new) == (0, 1)
    assert values_of(table) == {"5": "above", "8": "c8"}


def test_a_truncate_of_the_source(table: MirrorSetting) -> None:
    table.execute("insert into t values (20)", "truncate t", "insert into t values (21, 'x')")
    table.catch_up()
    table.assert_equal(LABEL)


def test_values_that_an_update_leaves_out_are_the_mirror_s(setting: MirrorSetting) -> None:
    setting.execute(
        "create table t (id int primary key, n int, body text, doc jsonb, list int[])",
        "alter table t alter body set storage external, alter doc set storage external,"
        " alter list set storage external",
        f"insert into t select i, 0, repeat('{LARGE}', 2), to_jsonb(repeat('{LARGE}', i)),"
        " array(select * from generate_series(1, 4000)) from generate_series(1, 3) i",
    )
    setting.stream()
    setting.fill(LABEL)
    setting.execute("update t set n = 1", "update t set body = 'short' where id = 2")
    setting.execute("update t set body = '__debezium_unavailable_value' where id = 3")
    assert any(record.unchanged for record in setting.changes())
    setting.fill(LABEL)
    setting.execute("update t set n = 2", "update t set id = 30 where id = 3")
    setting.catch_up()
    setting.assert_equal(LABEL)


def test_a_late_row_of_a_snapshot_has_no_say_on_values_of_newer_rows(table: MirrorSetting) -> None:
    def batch(id: int) -> list[Record]:
        lacking = record(table, "u", id, (100, 1), a="__debezium_unavailable_value")
        read = record(table, "r", id, (50, 0), a="as of 50")
        return [read, lacking._replace(unchanged=("a",))]

    table.apply([record(table, "u", 1, (90, 1), a="as of 90")])
    (made,) = table.apply([*batch(1), *batch(2), *batch(50)])
    assert not made.faults
    found = values_of(table)
    assert (found["1"], found["2"], found["50"]) == ("as of 90", "as of 50", "as of 50")


def test_an_update_of_a_row_that_is_not_there_and_lacks_a_value_is_a_fault(
    table: MirrorSetting,
) -> None:
    lacking = record(table, "u", 50, (10, 1), a="__debezium_unavailable_value")
    whole = record(table, "u", 51, (10, 2))
    (made,) = table.apply([lacking._replace(unchanged=("a",)), whole])
    assert [(fault.record.record, "large value" in fault.cause) for fault in made.faults] == [
        ("t-0-10.1", True)
    ]
    assert values_of(table).keys() - set(map(str, range(1, 11))) == {"51"}
    created = record(table, "c", 52, (11, 1), a="__debezium_unavailable_value", b=[1])
    (made,) = table.apply([created._replace(unchanged=("a",))])
    assert not made.faults, "its delete follows"
    assert values_of(table)["52"] is None


def test_records_whose_values_do_not_fit_are_told_and_the_others_applied(
    table: MirrorSetting,
) -> None:
    good = [record(table, "u", id, (10, id)) for id in range(1, 11) if id not in (4, 9)]
    bad = [
        record(table, "u", 4, (10, 4), b=["no number"]),
        record(table, "u", 9, (10, 9), b={"an": "object"}),
    ]
    broken = record(table, "u", 12, (10, 12))._replace(image='{"id": ')
    (made,) = table.apply([*good, *bad, broken])
    assert sorted(fault.record.record for fault in made.faults) == [
        "t-0-10.12", "t-0-10.4", "t-0-10.9"
    ]  # fmt: skip
    assert all("SQLSTATE 22P02" in fault.cause for fault in made.faults)
    assert (made.old, made.new) == (8, 8)
    expected = {str(id): f"u{id}" for id in range(1, 11)} | {"4": "a4", "9": "a9"}
    assert values_of(table) == expected


def test_a_batch_that_is_rolled_back_leaves_nothing(table: MirrorSetting) -> None:
    class KilledError(Exception):
        pass

    def killed() -> list[Images]:
        with table.state.transaction():
            made = images(table.state, stage(table.state, table.mirrors, batch))
            write(table.state, made)
            raise KilledError

    batch = [record(table, "u", 1, (10, 1)), record(table, "d", 2, (10, 2))]
    with pytest.raises(KilledError):
        killed()
    table.assert_equal(LABEL)
    (made,) = table.apply([record(table, "u", 3, (10, 3))])
    assert (made.old, made.new) == (1, 1)


def test_two_steps_of_one_transaction(table: MirrorSetting) -> None:
    with table.state.transaction():
        for step in ([record(table, "u", 1, (10, 1))], [record(table, "u", 2, (10, 2))]):
            (made,) = images(table.state, stage(table.state, table.mirrors, step))
            assert (made.old, made.new) == (1, 1)
            write(table.state, [made])
    assert (values_of(table)["1"], values_of(table)["2"]) == ("u1", "u2")


def test_many_records(table: MirrorSetting) -> None:
    batch = [record(table, "c" if id > 10 else "u", id, (10, id)) for id in range(1, 30_001)]
    (made,) = table.apply(batch)
    assert (made.old, made.new) == (10, 30_000)
    (made,) = table.apply([record(table, "d", id, (11, id)) for id in range(5_001, 30_001)])
    assert (made.old, made.new) == (25_000, 0)
    (made,) = table.apply([record(table, "u", 1, (12, 1))])
    assert (made.old, made.new) == (1, 1)
    assert len(values_of(table)) == 5_000
    (size,) = sizes(table.state)
    assert size.label == LABEL
    assert size.table_bytes > 100_000
    assert size.index_bytes > 10_000
