"""Values in every mode against those that real Debezium emitted (tests/oracle): ours are equal to
both those of a snapshot and those of a stream, but for the differences that are listed."""

from __future__ import annotations

import pytest

from cdc.config.events import Events
from cdc.events.form import DEBEZIUM, NAMES
from cdc.routes.content import CONTENT_NAMES
from tests.support.events.recorded_forms import (
    DIFFERENCES,
    FORMS,
    RECORDED,
    RECORDINGS,
    Recorded,
    meaning,
)
from tests.support.events.recorded_values import made, made_by_column


def ours(value: Recorded) -> str:
    return made(value.type, value.typmod, value.text, FORMS[value.form])


_OF_NO_VALUE = ("format", "schemas", "unavailable.value.placeholder", *CONTENT_NAMES)


def test_every_mode_of_every_setting_was_recorded() -> None:
    for name in NAMES:
        seen = {modes.get(name) for modes in RECORDINGS[0]["modes"].values()} - {None}
        if name not in _OF_NO_VALUE:
            wanted = Events.model_fields[NAMES[name]].annotation
            assert wanted is not None
            assert seen == set(wanted.__args__)


def test_the_preset_is_what_the_connector_says_its_defaults_are() -> None:
    told = RECORDINGS[0]["defaults"]
    form = Events(preset="debezium").form_with(())
    assert form == DEBEZIUM
    assert told["time.precision.mode"] == form.times
    assert told["decimal.handling.mode"] == form.decimals
    assert told["binary.handling.mode"] == form.binaries
    assert told["interval.handling.mode"] == form.intervals
    assert told["hstore.handling.mode"] == form.hstores
    assert told["unavailable.value.placeholder"] == form.placeholder
    assert told["skipped.operations"] == "".join(form.skipped)
    assert told["tombstones.on.delete"] == str(form.tombstones).lower()


@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_debeziums_in_snapshot_and_stream_or_a_listed_difference(form: str) -> None:
    for value in RECORDED:
        if value.form != form:
            continue
        made = meaning(value, ours(value))
        if any(made != meaning(value, theirs) for theirs in (value.stream, value.snapshot)):
            _, *expected = DIFFERENCES.get((value.declaration, value.text), ("",))
            assert ours(value) in expected, f"{value}: {ours(value)}"


def test_every_listed_difference_is_one() -> None:
    seen = {
        (value.declaration, value.text, ours(value))
        for value in RECORDED
        if meaning(value, ours(value)) != meaning(value, value.stream)
        or meaning(value, ours(value)) != meaning(value, value.snapshot)
    }
    listed = {(*of, one) for of, (_, *each) in DIFFERENCES.items() for one in each}
    assert listed == seen


@pytest.mark.parametrize("form", FORMS)
def test_a_recorded_value_is_the_same_from_each_of_the_three_encoders(form: str) -> None:
    for value in RECORDED:
        if value.form == form:
            parts = value.type, value.typmod, value.text, FORMS[form]
            assert made_by_column(*parts) == [ours(value)] * 2
