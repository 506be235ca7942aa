"""Tables that join where routes put them: what marks remember, and what is refused or told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from cdc.capture.routed_tables import check_joining, check_routes
from cdc.capture.topic_setup import Topics
from cdc.config import Config, parse_config
from cdc.errors import LogError, SourceError
from cdc.events.marks import Mark
from cdc.kafka.broker import Record, TopicSpec
from headwater.cli.init import topics as init_topics
from headwater.cli.init.topics import refuse_other_routes, routed

PEOPLE = {"tables": ["public.person"], "topic": "people"}
BY_SHOP = {**PEOPLE, "partition_by": ["shop"]}
ALL = {"tables": ["public.*"], "topic": "all"}
PERSON, ITEM = ("public", "person"), ("public", "item")


def config(*routes: dict[str, Any], **more: Any) -> Config:
    source = {"name": "shop", "dsn": "x", "tables": ["public.*"], "routes": list(routes)}
    document = {"source": source, "kafka": {"bootstrap_servers": "localhost:9092"}, **more}
    return parse_config(document, {}, Path("/"))


class Kafka:
    """Topics, each with the sources whose events it has, in order."""

    def __init__(self, **topics: Sequence[str]) -> None:
        self.topics = {name.replace("__", "."): held for name, held in topics.items()}

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic in self.topics}

    def create_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        made = [spec.name for spec in specs if spec.name not in self.topics]
        self.topics |= dict.fromkeys(made, ())
        return made

    def beginning_offsets(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: 0} for topic in topics}

    def end_offsets(self, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        return {topic: {0: len(self.topics[topic])} for topic in topics}

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Record]:
        for offset in range(start, end):
            block = {"name": self.topics[topic][offset], "commit_lsn": 100, "ordinal": 0}
            value = json.dumps({"op": "r", "source": block}).encode()
            yield Record(partition, offset, 0, b"1", value)


def mark(routed: dict[str, Any], **offsets: int) -> Mark:
    held = {name.replace("__", "."): {0: end} for name, end in offsets.items()}
    return Mark(100, held, "7", 1, "db", "slot", routed=routed)


def join(found: Config, kafka: Kafka, before: dict[str, Any], *tables: tuple[str, str]) -> None:
    check_joining(found, cast(Any, kafka), tables, mark(before))


@pytest.mark.parametrize(
    ("routes", "before", "kafka", "told"),
    [
        ([PEOPLE], {}, {"shop__public__person": ["shop"]}, "is in topic shop.public.person, and"),
        ([BY_SHOP], {"public.person": {"topic": "people"}}, {"people": ["shop"]},
         "with other keys, partitions or content"),
        ([], {"public.person": {"topic": "people"}}, {"people": ["shop"]}, "is in topic people"),
        ([PEOPLE], {}, {"people": ["shop", "crm"]}, "offset 1 is of source crm"),
        ([PEOPLE], {}, {"people": ["shop"]}, ""),
        ([PEOPLE], {}, {"people": [], "shop__public__person": []}, ""),
        ([PEOPLE], {"public.person": {"topic": "people"}}, {"people": ["shop"]}, ""),
        ([], {}, {"shop__public__person": ["crm"]}, ""),
    ],
)  # fmt: skip
def test_a_table_joins_only_where_it_may_be(
    routes: list[dict[str, Any]], before: dict[str, Any], kafka: dict[str, Any], told: str
) -> None:
    if not told:
        join(config(*routes), Kafka(**kafka), before, PERSON)
        return
    with pytest.raises(LogError) as caught:
        join(config(*routes), Kafka(**kafka), before, PERSON)
    assert told in str(caught.value)


def test_values_that_name_no_source_are_not_asked_for_it() -> None:
    route = {"tables": ["public.person"], "topic": "{source}.people"}
    join(config(route, events={"content": "row"}), Kafka(shop__people=["crm"]), {}, PERSON)
    join(config({**route, "content": "row"}), Kafka(shop__people=["crm"]), {}, PERSON)


def published(*tables: tuple[str, str]) -> Any:
    return SimpleNamespace(execute=lambda *_: SimpleNamespace(fetchall=lambda: list(tables)))


def test_marks_remember_where_tables_were_that_left() -> None:
    left = {"public.person": {"topic": "people"}}
    source = config(ALL).source
    found = check_routes(source, published(ITEM), mark(left, people=3), {"people": {0: 3}})
    assert found.places == {**left, "public.item": {"topic": "all", "key_field": "__table"}}
    assert found.published == {"public.item"}


def test_a_mark_forgets_a_route_that_a_table_has_no_more() -> None:
    before = mark({"public.person": {"topic": "people"}}, people=0)
    found = check_routes(config().source, published(PERSON), before, {"people": {0: 0}})
    assert found == ({}, frozenset())


def topics(found: Config, kafka: Kafka, *tables: tuple[str, str]) -> Topics:
    producer = SimpleNamespace(next_offsets={}, leading=set())
    made = Topics(found, cast(Any, kafka), cast(Any, producer), lambda _topic, _ends: None)
    made._published = lambda: list(tables)  # type: ignore[method-assign]
    return made


def relation(table: str) -> Any:
    return SimpleNamespace(schema="public", table=table, name=f"public.{table}")


def test_a_table_that_joins_others_in_their_topic_is_told_once() -> None:
    made = topics(config(ALL), Kafka(all=["shop"]), PERSON, ITEM)
    made.joined.add("public.item")
    made.partitions["all"] = 1
    with capture_logs() as logs:
        for table in ("item", "person", "person", "person_2024"):  # the last is a partition
            made.described(relation(table))
            made.count("all")
    assert [(one["event"], one["table"]) for one in logs] == [("table_joined", "public.person")]
    assert sorted(made.routed) == ["public.item", "public.person"]


def test_a_table_that_joins_a_topic_of_its_own_is_told_once() -> None:
    made = topics(config(PEOPLE), Kafka(), PERSON)
    with capture_logs() as logs:
        made.described(relation("person"))
        made.count("people")
        made.described(relation("person"))
        made.count("people")
    assert [one["table"] for one in logs] == ["public.person"]


def test_a_table_with_rows_beside_its_events_is_told_once_and_remembered_with_them() -> None:
    made = topics(config({**PEOPLE, "rows_topic": "{source}.rows"}), Kafka(), PERSON)
    with capture_logs() as logs:
        made.described(relation("person"))
        assert [made.count(topic) for topic in ("people", "shop.rows")] == [1, 1]
    assert [one["table"] for one in logs] == ["public.person"]
    rows = {"topic": "shop.rows", "content": "row"}
    assert made.routed == {"public.person": {"topic": "people", "rows": rows}}


def test_a_table_that_joins_is_compared_with_all_that_are_published() -> None:
    made = topics(config({**PEOPLE, "topic": "shop.public.item"}), Kafka(), PERSON, ITEM)
    with pytest.raises(SourceError, match="not by one route"):
        made.described(relation("person"))
    assert not made.routed


def test_a_table_that_joins_where_others_have_their_rows_is_refused() -> None:
    """It has no route itself."""
    route = {**PEOPLE, "rows_topic": "{source}.public.item"}
    made = topics(config(route), Kafka(), PERSON, ITEM)
    with pytest.raises(SourceError, match=r"share the topic shop\.public\.item, events and rows"):
        made.described(relation("item"))
    partition = topics(config(route), Kafka(), PERSON)
    partition.described(relation("item"))


def test_a_table_that_comes_back_has_the_keys_and_partitions_that_it_had() -> None:
    for end in (0, 7):
        made = topics(config(BY_SHOP), Kafka(people=["shop"]), PERSON)
        made.routed["public.person"] = {"topic": "people"}
        made._producer.next_offsets["people"] = {0: end}
        if not end:
            made.described(relation("person"))
            continue
        with pytest.raises(LogError, match=r"public\.person is in topic people, with other keys"):
            made.described(relation("person"))


def test_capture_opens_no_topic_of_another_source() -> None:
    made = topics(config(PEOPLE), Kafka(people=["crm"]), PERSON)
    made.described(relation("person"))
    with pytest.raises(LogError, match="is of source crm"):
        made.count("people")
    assert not made.partitions


def kit(found: Config, kafka: Kafka) -> Any:
    tables = [SimpleNamespace(schema="public", name="person", label="public.person")]
    return SimpleNamespace(config=found, broker=kafka, tables=tables)


def test_an_interrupted_init_still_knows_its_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_topics, "stored_mark", lambda *_: None)
    known = cast(Any, SimpleNamespace(routed={"public.person": {"topic": "people"}}))
    kafka = Kafka(people=["shop"])
    refuse_other_routes(kit(config(PEOPLE), kafka), known, again=True)
    with pytest.raises(LogError, match=r"topic people holds records of public\.person with other"):
        refuse_other_routes(kit(config(BY_SHOP), kafka), known, again=True)
    with pytest.raises(LogError, match="is of source crm"):
        refuse_other_routes(kit(config(PEOPLE), Kafka(people=["crm"])), None, again=True)


def test_a_new_snapshot_remembers_tables_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {"public.old": {"topic": "olds"}, "public.person": {"topic": "persons"}}
    stored = SimpleNamespace(mark=mark(left))
    monkeypatch.setattr(init_topics, "stored_mark", lambda *_: stored)
    found = routed(kit(config(PEOPLE), Kafka()), None)
    assert found == {"public.old": {"topic": "olds"}, "public.person": {"topic": "people"}}
