"""Records that a mirror could not take: applied once more, given up, overtaken."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.run.stream.recreated_topics import leave_recreated
from jobs.state.batch.staging import Record
from jobs.state.batch.stream_offsets import add_partitions, stream_offsets
from jobs.state.dead_letters.faulty_records import faulty_records
from jobs.state.mirrors.mirror_record import read_mirrors
from tests.support.views.engine_setting import EngineSetting

TABLE = "public.item"
TOPIC = f"shop.{TABLE}"
SCHEMA = (
    "create table item (id int primary key, n int, note text);"
    "insert into item select i, i, 'note ' || i from generate_series(1, 3) i"
)


@pytest.fixture
def setting(database: str, store_database: str) -> Iterator[EngineSetting]:
    found = EngineSetting(database, store_database, SCHEMA)
    found.add("v", "select id, n, note from item", ["id"])
    yield found
    found.close()


def changed(setting: EngineSetting, statement: str) -> Record:
    setting.mirrors.execute(statement)
    (record,) = setting.mirrors.changes()
    return record


def spoilt(record: Record) -> Record:
    """With a value that its column cannot hold."""
    assert record.image is not None
    image = record.image.replace("700", '"seven hundred"')
    assert image != record.image
    return record._replace(image=image)


def waiting(setting: EngineSetting) -> list[tuple[str, str | None]]:
    return [(one.table, one.key) for one in faulty_records(setting.conn)]


def again(setting: EngineSetting, *records: Record) -> None:
    tables = [setting.table([record])[2] for record in records]
    setting.batches.again(tables, {(record.table, record.key or "") for record in records})
    setting.keep()


def test_a_record_is_applied_once_more(setting: EngineSetting) -> None:
    record = changed(setting, "update item set n = 700 where id = 2")
    setting.apply([spoilt(record)])
    setting.keep()
    key = TABLE, record.key
    assert waiting(setting) == [key]
    again(setting, spoilt(record))
    assert waiting(setting) == [key]
    again(setting, record)
    assert waiting(setting) == []
    setting.check()


def test_records_of_a_key_are_applied_once_more_in_their_order(setting: EngineSetting) -> None:
    one = changed(setting, "update item set n = 700 where id = 2")
    other = changed(setting, "update item set n = 8 where id = 2")
    partial = other._replace(unchanged=("note",), record="shop.public.item-0-1")
    setting.apply([spoilt(one)])
    setting.apply([partial])
    setting.keep()
    assert waiting(setting) == [(TABLE, one.key)] * 2
    again(setting, one, partial)
    assert waiting(setting) == []
    setting.check()


def test_a_record_of_a_topic_that_was_recreated_waits_no_more(setting: EngineSetting) -> None:
    """Kafka has none of it: an offset of the topic is that of another record now."""
    add_partitions(setting.conn, {TOPIC: {0: 0}}, {TOPIC: "first"})
    setting.apply([spoilt(changed(setting, "update item set n = 700 where id = 2"))])
    passed_over: list[str] = []

    def leave(id_now: str) -> bool:
        broker = SimpleNamespace(topic_ids=lambda _: {TOPIC: id_now})
        tables = SimpleNamespace(broker=broker, filled=read_mirrors, topic="shop.{}".format)
        registry = SimpleNamespace(pass_over=passed_over.extend)
        return leave_recreated(setting.conn, cast(Any, tables), cast(Any, registry))

    assert (leave("first"), len(waiting(setting)), passed_over) == (False, 1, [])
    assert (leave("second"), waiting(setting), passed_over) == (True, [], [TABLE])
    assert TOPIC not in stream_offsets(setting.conn)
    assert read_mirrors(setting.conn)[TABLE].reason == "its topic was recreated"


def test_a_record_that_is_given_up_waits_no_more(setting: EngineSetting) -> None:
    record = changed(setting, "update item set n = 700 where id = 2")
    setting.apply([spoilt(record)])
    setting.batches.forget({(TABLE, record.key or "")})
    setting.keep()
    assert waiting(setting) == []
    again(setting, record)  # it is newer than the row that the mirror has
    setting.check()
