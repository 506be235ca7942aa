"""``[events]``: the preset, the modes by their dotted names, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import Config, parse_config
from cdc.errors import ConfigError, LogError
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.kafka.marks import refuse_other_form

PLAIN = {
    "source": {"name": "shop", "dsn": "postgresql://db/shop", "tables": ["public.*"]},
    "kafka": {"bootstrap_servers": "localhost:9092"},
}


def config(**events: Any) -> Config:
    return parse_config({**PLAIN, "events": events}, {}, Path("/"))


def form(**events: Any) -> Form:
    return config(**events).form


def faults(**events: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config(**events)
    return [line.removeprefix("headwater.toml: ") for line in caught.value.message.splitlines()]


def test_without_settings_the_form_is_ours() -> None:
    assert parse_config(PLAIN, {}, Path("/")).form == OURS
    assert OURS.recorded == {}


def test_the_preset_is_debeziums_and_each_setting_beside_it_is_taken() -> None:
    assert form(preset="debezium") == DEBEZIUM
    mixed = form(preset="debezium", schemas=False, time={"precision": {"mode": "connect"}})
    assert mixed == Form(
        times="connect",
        decimals="precise",
        binaries="bytes",
        intervals="numeric",
        skipped=frozenset("t"),
    )


def test_a_name_with_dots_is_one_in_quotes_and_without() -> None:
    quoted = form(**{"time.precision.mode": "adaptive", "hstore.handling.mode": "map"})
    dotted = form(time={"precision": {"mode": "adaptive"}}, hstore={"handling": {"mode": "map"}})
    assert quoted == dotted == Form(times="adaptive", hstores="map")


@pytest.mark.parametrize(
    ("given", "skipped"),
    [("t", "t"), ("c, t", "ct"), (["u", "d"], "ud"), ("none", ""), (["none"], ""), ([], "")],
)
def test_skipped_operations_are_written_as_debezium_does_or_as_a_list(
    given: object, skipped: str
) -> None:
    assert form(preset="debezium", skipped={"operations": given}).skipped == frozenset(skipped)


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            {"time.precision.mode": "adaptiv"},
            "is 'adaptiv': did you mean adaptive? known are isostring, adaptive, "
            "adaptive_time_microseconds, connect, microseconds, nanoseconds",
        ),
        (
            {"decimal": {"handling": {"mode": "exact"}}},
            "events.\"decimal.handling.mode\": is 'exact': known are string, double, precise",
        ),
        ({"preset": "avro"}, "events.preset: is 'avro': known are debezium"),
        ({"schemas": "on?"}, "events.schemas: is neither true nor false: set true or false, "),
        (
            {"skipped.operations": "t,x"},
            "events.\"skipped.operations\": entry 2 is 'x': known are c",
        ),
        ({"skipped.operations": "none,t"}, "events.\"skipped.operations\": entry 1 is 'none'"),
        (
            {"time": {"precision": "adaptive"}},
            'events."time.precision": unknown setting: did you mean time.precision.mode?',
        ),
        ({"binary": {"mode": "hex"}}, 'events."binary.mode": unknown setting: did you mean binary'),
        ({"times": "connect"}, "events.times: unknown setting: "),
        ({"unavailable.value.placeholder": ""}, 'events."unavailable.value.placeholder": is empty'),
        (
            {"unavailable.value.placeholder": "hex:00"},
            'events."unavailable.value.placeholder": is text',
        ),
        ({"unavailable.value.placeholder": "a\0"}, "that cannot be printed"),
    ],
)
def test_what_is_not_known_is_told_with_what_is(events: dict[str, Any], told: str) -> None:
    (fault,) = faults(**events)
    assert told in fault


def test_a_form_is_recorded_by_what_differs_and_read_back() -> None:
    for one in (OURS, DEBEZIUM, Form(placeholder="é", times="connect", tombstones=False)):
        assert one.as_recorded(one.recorded) == one
    assert Form(skipped=frozenset("t"), tombstones=False).recorded == {}


@pytest.mark.parametrize(
    "recorded",
    [{"schemas": "yes"}, {"time.precision.mode": "later"}, {"new.mode": 1}, {"schemas": None}],
)
def test_a_form_of_a_later_version_is_not_guessed(recorded: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not known"):
        OURS.as_recorded(recorded)


def test_topics_of_another_form_are_refused_with_both_forms_and_the_ways_out() -> None:
    refuse_other_form(config(preset="debezium"), DEBEZIUM.recorded)
    refuse_other_form(config(**{"skipped.operations": "t", "tombstones.on.delete": False}), {})
    with pytest.raises(LogError) as caught:
        refuse_other_form(config(schemas=True), Form(times="connect").recorded)
    assert caught.value.message == (
        'the topics of source shop were begun with time.precision.mode = "connect" in [events], '
        "but the configuration says schemas = true: a topic has one form"
    )
    assert "Set [events] back" in caught.value.hint
    assert "source.name" in caught.value.hint
    with pytest.raises(LogError, match=r"begun with schemas = true .* says the default form"):
        refuse_other_form(config(), {"schemas": True})


def test_rows_as_values_have_their_settings_by_debeziums_names() -> None:
    made = form(
        content="row",
        add={"fields": ["op", "source.ts_ms"]},
        delete={"tombstone": {"handling": {"mode": "rewrite"}}},
    )
    assert made == Form(content="row", added="op,source.ts_ms", deletes="rewrite")
    assert made.recorded == {
        "content": "row",
        "add.fields": "op,source.ts_ms",
        "delete.tombstone.handling.mode": "rewrite",
    }
    assert OURS.as_recorded(made.recorded) == made
    assert form(content="row", **{"add.fields": "op, lsn"}).added == "op,lsn"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ({"add.fields": "op"}, 'add.fields: without effect: set content = "row"'),
        ({"delete.tombstone.handling.mode": "drop"}, "without effect"),
        ({"content": "row", "add.fields": "op,nothing"}, "add.fields: has nothing, which no event"),
        ({"content": "row", "add.fields": "op,op"}, "names __op twice"),
        ({"content": "row", "add.fields": "op:deleted"}, "names __deleted"),
        ({"content": "row", "tombstones.on.delete": False}, "tombstones.on.delete: without effect"),
        (
            {"content": "cloudevents", "format": "avro", "registry": {"url": "http://localhost:1"}},
            '"cloudevents" are JSON',
        ),
        ({"content": "cloudevents", "add.fields": "op"}, "add.fields: without effect"),
        (
            {"content": "row", "format": "protobuf", "registry": {"url": "http://localhost:1"}},
            'content: "row" is not written as Protobuf',
        ),
    ],
)
def test_settings_of_rows_that_cannot_be_meant_are_refused(events: Any, said: str) -> None:
    (fault,) = faults(**events)
    assert said in fault


@pytest.mark.parametrize(
    ("mode", "left_out", "tombstones"),
    [("drop", "dt", False), ("tombstone", "t", True), ("rewrite", "t", False)],
)
def test_what_a_delete_is_says_which_records_there_are(
    mode: Any, left_out: str, tombstones: bool
) -> None:
    made = Form(content="row", deletes=mode)
    assert (made.left_out, made.has_tombstones) == (frozenset(left_out), tombstones)
    assert (OURS.left_out, OURS.has_tombstones) == (frozenset(), True)
