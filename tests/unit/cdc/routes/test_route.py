"""The topic of a table by its routes, and what is said against routes and the tables they meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc.config import Config, parse_config
from cdc.errors import ConfigError, UsageError
from cdc.routes.content import TopicContent
from cdc.routes.faults import LONGEST_NAME, changed_keys, changed_places, key_fault, route_faults
from cdc.routes.route import PLAIN as ROUTE_PLAIN
from cdc.routes.route import Place, Route, place_of

SHARDS = Route("{source}.{1}", (), r"public\.(\w+)_shard\d+", "__table")


def config(*routes: dict[str, Any], **more: Any) -> Config:
    source = {"name": "shop", "dsn": "x", "tables": ["public.*"], "routes": list(routes)}
    document = {"source": source, "kafka": {"bootstrap_servers": "localhost:9092"}, **more}
    return parse_config(document, {}, Path("/"))


@pytest.mark.parametrize(
    ("route", "table", "topic"),
    [
        ({"tables": ["public.item"], "topic": "things"}, "item", "things"),
        ({"tables": ["public.i*"], "topic": "{source}.{table}"}, "item", "shop.item"),
        ({"tables": ["app.*"], "topic": "{table}"}, "item", "shop.public.item"),
        ({"match": r"public\.(?P<what>.*)_\d+", "topic": "all.{what}"}, "item_7", "all.item"),
        ({"match": r"public\.(.*)_\d+", "topic": "all.{1}"}, "item", "shop.public.item"),
        ({"match": ".*_7", "tables": ["public.item_*"], "topic": "x"}, "item_8",
         "shop.public.item_8"),
        ({"tables": ["public.*"], "topic": "{schema}-{table}"}, "kü che", "public-k__che"),
    ],
)  # fmt: skip
def test_a_route_names_a_tables_topic(route: dict[str, Any], table: str, topic: str) -> None:
    assert config(route).source.topic("public", table) == topic


def test_the_first_route_that_fits_holds() -> None:
    found = config(
        {"tables": ["public.item"], "topic": "one"}, {"tables": ["public.*"], "topic": "rest"}
    ).source
    assert [found.topic("public", name) for name in ("item", "other")] == ["one", "rest"]


@pytest.mark.parametrize(
    ("route", "field"),
    [
        ({"tables": ["public.a_*"], "topic": "a"}, "__table"),
        ({"tables": ["public.a", "public.b"], "topic": "{schema}"}, "__table"),
        ({"match": "public.*", "topic": "a"}, "__table"),
        ({"tables": ["public.a"], "topic": "a"}, ""),
        ({"tables": ["public.a_*"], "topic": "x.{table}"}, ""),
        ({"match": r"public\.(.*)_.*", "topic": "{1}"}, ""),
        ({"tables": ["public.a_*"], "topic": "a", "distinct_keys": True}, ""),
        ({"match": r"public\.(.*)_.*", "topic": "{1}", "key_field": "of"}, "of"),
    ],
)
def test_keys_say_their_table_where_a_topic_is_plainly_of_several(
    route: dict[str, Any], field: str
) -> None:
    (made,) = config(route).source.routing
    assert made.key_field == field
    assert made.shared == bool(field or route.get("distinct_keys"))


def test_a_key_names_its_table_as_debeziums_router_does() -> None:
    place = place_of("shop", (SHARDS,), "public", "item_shard2")
    assert place.topic == "shop.item"
    assert place.key_tail == b',"__table":"shop.public.item_shard2"'


@pytest.mark.parametrize(
    ("route", "told"),
    [
        ({"topic": "x"}, "is of no table"),
        ({"tables": ["orders"], "topic": "x"}, "is not schema.table"),
        ({"match": "(", "topic": "x"}, "is not a regular expression"),
        ({"match": "(.*)", "topic": "{2}"}, "topic: {2} is not known"),
        ({"tables": ["public.a"], "topic": "{1}"}, "topic: {1} is not known"),
        ({"tables": ["public.a"], "topic": "a{"}, "topic: has a brace"),
        ({"match": r"(?P<table>\w+)_\d+", "topic": "{table}"}, "match: has a group table"),
        ({"match": r"(?P<source>\w+)\.a", "topic": "x"}, "match: has a group source"),
        ({"tables": ["public.a"], "topic": "a b"}, "characters that Kafka does not allow"),
        ({"tables": ["public.*"], "topic": "a", "key_field": "x y"}, "is not a name of letters"),
        ({"tables": ["public.*"], "topic": "a", "key_field": "x", "distinct_keys": True},
         "no field is needed"),
        ({"tables": ["public.*"]}, "says nothing of its tables: set topic, content"),
        ({"tables": ["public.*"], "content": "rows"}, "content: is 'rows': did you mean row?"),
        ({"tables": ["public.*"], "topic": "a", "add.fields": "op"},
         'add.fields: without effect: set content = "row"'),
        ({"tables": ["public.*"], "content": "row", "add": {"fields": "ops"}},
         "add.fields: has ops, which no event has"),
        ({"tables": ["public.*"], "content": "row", "add.headers": "op,op"},
         "add.headers: names __op twice"),
        ({"tables": ["public.*"], "content": "row",
          "add": {"headers": {"prefix": ""}}, "add.headers": "op:position"},
         "add.headers: names position, which records have already"),
        ({"tables": ["public.*"], "topic": "a", "add.headers.prefix": "x"},
         'add.headers.prefix: without effect: set content = "row" or rows_topic'),
        ({"tables": ["public.*"], "content": "row", "add.headers.prefix": "ü "},
         'add.headers.prefix: is not up to 100 letters, digits and signs of ASCII'),
        ({"tables": ["public.*"], "content": "row", "add.field": "op"},
         "did you mean add.fields?"),
    ],
)  # fmt: skip
def test_a_route_that_cannot_be_is_refused(route: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(route)
    assert told in str(caught.value)
    assert "source.routes, entry 1" in str(caught.value)


def test_two_routes_of_one_topic_are_refused() -> None:
    with pytest.raises(ConfigError, match="routes: 1 and 2 have the topic a"):
        config({"tables": ["public.a"], "topic": "a"}, {"tables": ["public.b"], "topic": "a"})


def test_a_registry_has_to_tell_the_tables_of_a_topic_apart() -> None:
    registry = {"url": "http://localhost:8081"}
    route = {"tables": ["public.*"], "topic": "a"}
    with pytest.raises(ConfigError, match="TopicRecordNameStrategy"):
        config(route, events={"format": "avro", "registry": registry})
    registry["subject.name.strategy"] = "TopicRecordNameStrategy"
    config(route, events={"format": "avro", "registry": registry})
    registry.pop("subject.name.strategy")
    config({"tables": ["public.a"], "topic": "a"}, events={"format": "avro", "registry": registry})


@pytest.mark.parametrize("content", ["row", "cloudevents"])
def test_topics_whose_values_name_no_source_begin_with_its_name(content: str) -> None:
    told = r"source\.routes: events\.content .*the topic of route 1 has to begin with {source}\."
    for topic in ("a", "x.{source}", "{source}s", "{table}"):
        with pytest.raises(ConfigError, match=told):
            config({"tables": ["public.a"], "topic": topic}, events={"content": content})
    for topic in ("{source}.a", "shop.a"):
        config({"tables": ["public.a"], "topic": topic}, events={"content": content})


@pytest.mark.parametrize("content", ["row", "cloudevents"])
def test_a_route_has_a_content_of_its_own(content: str) -> None:
    found = config({"tables": ["public.a"], "content": content}, {"match": ".*", "topic": "b"})
    form, source = found.form, found.source
    place = source.place("public", "a")
    assert (place.topic, form.of(place).content) == ("shop.public.a", content)
    assert place.recorded == {"topic": "shop.public.a", "content": content}
    assert form.of(source.place("public", "b")) == form
    told = r"source\.routes: its content is .*the topic of route 1 has to begin with {source}\."
    with pytest.raises(ConfigError, match=told):
        config({"tables": ["public.a"], "topic": "a", "content": content})


@pytest.mark.parametrize(
    ("content", "events", "told"),
    [
        ("row", {"content": "row"}, "[events] has a content for all tables: remove that"),
        ("event", {"content": "row"}, "[events] has a content for all tables: remove that"),
        ("row", {"content": "cloudevents"}, 'tables = ["*.*"] and content = "cloudevents"'),
        ("row", {"format": "protobuf"}, "rows are not written as Protobuf"),
        ("cloudevents", {"format": "avro"}, "CloudEvents are JSON"),
    ],
)
def test_a_content_that_does_not_go_with_events_is_refused(
    content: str, events: dict[str, Any], told: str
) -> None:
    if "format" in events:
        events = {**events, "registry": {"url": "http://localhost:8081"}}
    with pytest.raises(ConfigError) as caught:
        config({"tables": ["public.a"], "content": content}, events=events)
    assert told in str(caught.value)
    assert f'source.routes: route 1 has content = "{content}"' in str(caught.value)


def test_settings_of_rows_are_a_routes_too() -> None:
    route = {"tables": ["public.a"], "content": "row", "add": {"fields": ["op", "lsn"]},
             "delete": {"tombstone": {"handling": {"mode": "rewrite"}}}}  # fmt: skip
    found = config(route)
    form = found.form.of(found.source.place("public", "a"))
    assert (form.content, form.added, form.deletes) == ("row", "op,lsn", "rewrite")


def test_rows_stand_beside_events_in_a_topic_of_their_own() -> None:
    route = {
        "tables": ["public.a*"],
        "rows_topic": "{source}.rows.{table}",
        "add": {"fields": "op"},
    }
    found = config(route)
    (events, place), (rows, beside) = found.form.outputs("shop", "public", "a1")
    assert (place.topic, events.content, place.key_field) == ("shop.public.a1", "event", "")
    assert (beside.topic, rows.content, rows.added) == ("shop.rows.a1", "row", "op")
    assert rows.place("shop", "public", "a1").topic == "shop.rows.a1"
    assert found.source.own_topic("public", "a1") == "shop.public.a1"
    assert found.source.topics([("public", "a1"), ("public", "b")]) == [
        "shop.public.a1", "shop.rows.a1", "shop.public.b",
    ]  # fmt: skip
    recorded = {"topic": "shop.rows.a1", "content": "row", "add.fields": "op"}
    assert place.recorded == {"topic": "shop.public.a1", "rows": recorded}
    (merged,) = config({**route, "rows_topic": "{source}.rows"}).source.routing
    assert merged.key_field == "__table", "rows of several tables share a topic"


@pytest.mark.parametrize(
    ("route", "told"),
    [
        ({"rows_topic": "{source}.{1}"}, "rows_topic: {1} is not known"),
        ({"rows_topic": "{source}.a b"}, "rows_topic: '.a b' has characters"),
        (
            {"rows_topic": "{source}.r", "content": "row"},
            "rows_topic: stands beside events: remove",
        ),
        ({"rows_topic": "{source}.{schema}.{table}"}, "rows_topic: is the topic of the events"),
        ({"rows_topic": "rows"}, "the rows_topic of route 1 has to begin with {source}."),
    ],
)
def test_a_topic_of_rows_that_cannot_be_is_refused(route: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config({"tables": ["public.a"], **route})
    assert told in str(caught.value)


def test_rows_beside_events_need_events() -> None:
    route = {"tables": ["public.a"], "rows_topic": "{source}.rows"}
    with pytest.raises(
        ConfigError, match=r"route 1 has rows_topic, and \[events\] has a content for"
    ):
        config(route, events={"content": "row"})
    with pytest.raises(ConfigError, match=r"routes: 1 and 2 have the topic {source}\.rows: name"):
        config(route, {"tables": ["public.b"], "topic": "{source}.rows"})


def test_who_reads_events_is_refused_a_topic_without() -> None:
    found = config({"tables": ["public.a"], "content": "row"}, {"match": ".*", "topic": "b"})
    with pytest.raises(
        UsageError, match=r'a: its topic shop\.public\.a has no events: content = "r'
    ):
        found.source.own_topic("public", "a")


def test_a_connectors_topics_have_no_routes() -> None:
    with pytest.raises(ConfigError, match=r"source\.routes: topics are those of the connector"):
        parse_config(
            {
                "source": {
                    "name": "shop", "dsn": "x", "tables": ["public.*"], "events": "debezium",
                    "routes": [{"tables": ["public.a"], "topic": "a"}],
                },
                "events": {"preset": "debezium"},
                "kafka": {"bootstrap_servers": "localhost:9092"},
            },
            {},
            Path("/"),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("routes", "tables", "told"),
    [
        ((Route("{table}", ("*.*",)),), ["a.x", "b.x"], "does not say that it holds several"),
        ((Route("shop.public.b", ("public.a",)),), ["public.a", "public.b"], "not by one route"),
        ((Route("a.b", ("public.a",)), Route("a_b", ("public.b",))), ["public.a", "public.b"],
         "not by one route"),
        ((Route("{source}.__progress", ("public.a",)),), ["public.a"], "one of Headwater's own"),
        ((Route("{source}.{table}", ("public.*",)),), ["public.message"],
         "one of Headwater's own"),
        ((Route("{source}.outbox.{table}", ("public.*",)),), ["public.a"],
         "one of Headwater's own"),
        ((Route("crm.__progress", ("public.a",)),), ["public.a"], "one of Headwater's own"),
        ((Route("crm.__schemas", ("public.a",)),), ["public.a"], "one of Headwater's own"),
        ((Route("crm.{table}", ("public.*",)),), ["public.__signal"], "one of Headwater's own"),
        ((Route("orders.dlq", ("public.a",)),), ["public.a"], "one of Headwater's own"),
        ((Route("__consumer_offsets", ("public.a",)),), ["public.a"], "one of Kafka's own"),
        ((Route("__transaction_state", ("public.a",)),), ["public.a"], "one of Kafka's own"),
        ((Route("..", ("public.a",)),), ["public.a"], "Kafka does not allow"),
        ((Route("x" * (LONGEST_NAME + 1), ("public.a",)),), ["public.a"], "250 characters"),
        ((Route("{table}", ("*.*",), rows_topic="r"),), ["public.a", "public.b"],
         "does not say that it holds several"),
        ((Route("x.{table}", ("*.*",), rows_topic="x.a", key_field="__table"),),
         ["public.a", "public.b"], "events and rows"),
        ((Route("x", ("public.a",), rows_topic="{source}.__schemas"),), ["public.a"],
         "Change the rows_topic of route 1"),
        ((Route("x", ("public.*",), key_field="__table"),), ["public.a b", "public.a_b"],
         "__table would call them the same"),
        ((), ["public.a b", "public.a_b"], "would share the topic shop.public.a_b"),
    ],
)  # fmt: skip
def test_topics_that_cannot_be_are_told(
    routes: tuple[Route, ...], tables: list[str], told: str
) -> None:
    named = [(schema, table) for schema, _, table in (one.partition(".") for one in tables)]
    (problem,) = route_faults("shop", routes, named)
    assert told in problem
    assert "\n" not in problem


def test_tables_of_one_route_share_a_topic_where_their_keys_are_told_apart() -> None:
    tables = [("public", "item_shard1"), ("public", "item_shard2"), ("public", "other")]
    assert route_faults("shop", (SHARDS,), tables) == []
    distinct = Route("all", ("public.*",), distinct_keys=True)
    assert route_faults("shop", (distinct,), tables) == []


def test_a_key_has_to_fit_its_route() -> None:
    place = Place("t", "__table", "shop.public.a", ("customer",), True, 0)
    fault = key_fault("public.a", ("id",), place)
    assert fault is not None
    assert "public.a: partition_by of source.routes names customer" in fault[0]
    assert key_fault("public.a", ("customer", "id"), place) is None
    fault = key_fault("public.a", ("__table", "customer"), place)
    assert fault is not None
    assert "its key has a column __table" in fault[0]
    assert key_fault("public.a", (), place) is not None
    fault = key_fault("public.a", ("id", "costumer"), place)
    assert fault is not None
    assert fault[1].startswith("did you mean costumer? Else name columns of the key")


A, PLAIN = [("public", "a")], "shop.public.a"
ROWS = Route(ROUTE_PLAIN, ("public.a",), content=TopicContent("row"))
BESIDE = Route(ROUTE_PLAIN, ("public.a",), rows_topic="{source}.rows")
BESIDE_BEFORE = {"topic": PLAIN, "rows": {"topic": "shop.rows", "content": "row"}}
TO_X, BY_K = Route("x", ("public.a",)), Route("x", ("public.a",), partition_by=("k",))


@pytest.mark.parametrize(
    ("routes", "before", "held", "told"),
    [
        ((TO_X,), {}, [PLAIN], "public.a is in topic shop.public.a, and source.routes sends it"),
        ((), {"public.a": {"topic": "x"}}, ["x"], "is in topic x, and source.routes sends it"),
        ((BY_K,), {"public.a": {"topic": "x"}}, ["x"], "with other keys, partitions or content"),
        ((ROWS,), {}, [PLAIN], "with other keys, partitions or content"),
        ((), {"public.a": {"topic": PLAIN, "content": "row"}}, [PLAIN], "is in topic shop.public"),
        ((ROWS,), {"public.a": {"topic": PLAIN, "content": "row"}}, [PLAIN], ""),
        ((BESIDE,), {}, [PLAIN], "public.a has rows in no second topic, and source.routes wants"),
        ((BESIDE,), {"public.a": BESIDE_BEFORE}, [PLAIN], ""),
        ((), {"public.a": BESIDE_BEFORE}, [PLAIN], "wants them in no second topic"),
        ((TO_X,), {}, ["x"], ""),
        ((TO_X,), {"public.a": {"topic": "x"}}, ["x", PLAIN], ""),
        ((TO_X,), {"public.a": {"topic": "y"}}, [], ""),
        ((), {}, [PLAIN], ""),
    ],
)
def test_a_table_does_not_go_on_elsewhere(
    routes: tuple[Route, ...], before: dict[str, Any], held: list[str], told: str
) -> None:
    found = changed_places("shop", routes, A, before, held)
    assert (found is not None) == bool(told)
    if found is not None:
        assert told in found[0]
        assert "headwater init --again" in found[1]


def test_a_new_snapshot_goes_to_another_topic_and_not_beside_other_keys() -> None:
    assert changed_keys("shop", (TO_X,), A, {}, [PLAIN]) is None
    found = changed_keys("shop", (BY_K,), A, {"public.a": {"topic": "x"}}, ["x"])
    assert found is not None
    assert "topic x holds records of public.a with other keys" in found[0]


def test_a_new_snapshot_may_begin_rows_beside_and_not_change_what_is_there() -> None:
    held = [PLAIN, "shop.rows"]
    assert changed_keys("shop", (BESIDE,), A, {}, held) is None
    assert changed_keys("shop", (), A, {"public.a": BESIDE_BEFORE}, held) is None
    other = replace(BESIDE, rows=TopicContent("row", "op"))
    found = changed_keys("shop", (other,), A, {"public.a": BESIDE_BEFORE}, held)
    assert found is not None
    assert "topic shop.rows holds records of public.a with other keys" in found[0]


NEW, OLD_ROWS = "shop.new", {"content": "row"}


@pytest.mark.parametrize(
    ("route", "before", "told"),
    [
        (replace(BESIDE, topic=NEW, key_field="__table"), BESIDE_BEFORE, "shop.rows"),
        (replace(BESIDE, topic=NEW, partition_by=("k",)), BESIDE_BEFORE, "shop.rows"),
        (Route("shop.rows", ("public.a",), rows_topic=PLAIN), BESIDE_BEFORE, "shop.rows"),
        (Route(NEW, ("public.a",), rows_topic=PLAIN), {"topic": PLAIN}, PLAIN),
        (Route("shop.rows", ("public.a",)), BESIDE_BEFORE, "shop.rows"),
        (Route("shop.rows", ("public.a",), content=TopicContent("row", "op")), BESIDE_BEFORE,
         "shop.rows"),
        (Route("shop.rows", ("public.a",), content=TopicContent("row")), BESIDE_BEFORE, ""),
        (ROWS, BESIDE_BEFORE, PLAIN),
        (Route(NEW, ("public.a",), rows_topic=PLAIN, rows=TopicContent("row", "op")),
         {"topic": PLAIN, **OLD_ROWS}, PLAIN),
        (Route(NEW, ("public.a",), rows_topic=PLAIN), {"topic": PLAIN, **OLD_ROWS}, ""),
        (replace(BESIDE, topic=NEW), BESIDE_BEFORE, ""),
        (replace(BESIDE, topic=NEW, rows_topic="shop.others", key_field="__table"), BESIDE_BEFORE,
         ""),
    ],
)  # fmt: skip
def test_a_topic_keeps_its_keys_and_content_whether_it_is_a_tables_first_or_second(
    route: Route, before: dict[str, Any], told: str
) -> None:
    held = [PLAIN, "shop.rows"]
    found = changed_keys("shop", (route,), A, {"public.a": before}, held)
    assert (found is not None) == bool(told)
    if found is not None:
        assert f"topic {told} holds records of public.a with other keys" in found[0]
    assert changed_keys("shop", (route,), A, {"public.a": before}, []) is None


def test_rows_keep_their_keys_where_the_topic_of_events_is_gone() -> None:
    route = replace(BESIDE, partition_by=("k",))
    assert changed_keys("shop", (route,), A, {"public.a": BESIDE_BEFORE}, ["shop.rows"]) is not None


def test_who_reads_one_table_is_told_of_a_topic_of_rows_that_tables_share() -> None:
    source = config({"tables": ["public.a_*"], "rows_topic": "{source}.rows"}).source
    with pytest.raises(
        UsageError, match=r"a_1: its rows share topic shop\.rows with those of other"
    ):
        source.own_topic("public", "a_1")


def test_who_reads_one_table_is_refused_a_topic_of_several() -> None:
    source = config(
        {"tables": ["public.a_*"], "topic": "a"}, {"tables": ["public.b"], "topic": "b"}
    ).source
    assert source.own_topic("public", "b") == "b"
    with pytest.raises(UsageError, match=r"public\.a_1 is in topic a, which may hold several"):
        source.own_topic("public", "a_1")


def test_events_that_only_share_a_topic_of_rows_are_read_where_keys_are_as_they_are() -> None:
    route = {"tables": ["public.*"], "rows_topic": "{source}.rows"}
    assert config({**route, "distinct_keys": True}).source.own_topic("public", "a") == PLAIN
    with pytest.raises(UsageError, match="keys of both topics have the field __table"):
        config(route).source.own_topic("public", "a")
    for topic in ("{source}.all", "{source}.{table}"):
        source = config({**route, "topic": topic, "distinct_keys": True}).source
        with pytest.raises(UsageError, match="which may hold several tables"):
            source.own_topic("public", "a")


def test_events_of_two_tables_do_not_meet_because_their_rows_do() -> None:
    route = Route(ROUTE_PLAIN, ("public.*",), distinct_keys=True, rows_topic="{source}.rows")
    assert route_faults("shop", (route,), [("public", "a"), ("public", "b")]) == []
    (problem,) = route_faults("shop", (route,), [("public", "a b"), ("public", "a_b")])
    assert "tables public.a b and public.a_b would share the topic shop.public.a_b" in problem
