"""Values, schemas and events that real Debezium emitted in its other modes (``tests/oracle``), and
where our values differ from them.

Each recorded form combines modes so that every mode occurs with all types, read in a snapshot and
streamed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cdc.config.events import Events
from cdc.events.form import Form
from cdc.protocol.relation import TypeInfo
from tests.support.events.recorded_values import DIMENSIONS, LOST, OMITTED, ORACLE, type_info

RECORDINGS: Final = [
    json.loads((ORACLE / name).read_text(encoding="utf-8"))
    for name in ("debezium_forms.json", "debezium_extension_forms.json")
]
FORMS: dict[str, Form] = {
    name: Events.model_validate({"schemas": True, **modes}).form_with(())
    for name, modes in RECORDINGS[0]["modes"].items()
}
CALENDAR = "the snapshot has another date than the stream"
RANGE = "the number overflows"

_OTHER_MODES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("numeric[]", "{1.10,NaN}"): ('[1.10,"NaN"]', '[{"scale":1,"value":"Cw=="},null]'),
    ("date", "infinity"): ("2147483647",),
    ("date", "-infinity"): ("-2147483648",),
    ("timestamp", "infinity"): ("9223372036854775807",),
    ("timestamp", "-infinity"): ("-9223372036854775808",),
    ("interval", "infinity"): ("9223372036854775807",),
    ("numeric(5,-2)", "12300"): ('"ew=="',),
    ("numeric(5,-2)", "-100000"): ('"/Bg="',),
    ("price[]", "{1.50}"): ('["AJY="]', "[1.50]"),
    ("money[]", "{$1.50}"): ('["AJY="]', "[1.50]"),
    ("interval[]", "{P1D}"): ("[86400000000]",),
}
DIFFERENCES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    **{of: (*found, *_OTHER_MODES.get(of, ())) for of, found in LOST.items()},
    ("timestamp", "294276-12-31 23:59:59.999999"): (RANGE, "null"),
    ("date", "0044-03-15 BC"): (CALENDAR, '"-0043-03-15Z"', "-735160"),
    ("date", "1582-10-10"): (CALENDAR, '"1582-10-10Z"', "-141432"),
    ("date", "4713-01-01 BC"): (CALENDAR, '"-4712-01-01Z"', "-2440550"),
    ("int4[]", "{{1,2},{3,4}}"): (DIMENSIONS, "[1,2,3,4]"),
    ("text[]", "{{a,b},{c,NULL}}"): (DIMENSIONS, '["a","b","c",null]'),
}
"""Why, and our JSON in the modes that have it, by declaration and PostgreSQL's text."""
# Columns that Debezium leaves out have a schema all the same, and these another one.
SCHEMA_DIFFERENCES: Final = {
    "varbit": "text of 0 and 1 keeps the length",
    "varbit(5)": "text of 0 and 1 keeps the length",
    "numeric(5,-2)": "a negative scale is negative",
    "bit(3)[]": "an array is an array",
    "bit(1)[]": "an array is an array",
    "mood[]": "an element may be NULL",
    "tsvector[]": "an element may be NULL",
}


class Recorded(NamedTuple):
    """One value in one form; None where Debezium left the column out, or stopped."""

    form: str
    declaration: str
    type: TypeInfo
    typmod: int
    text: str
    stream: str | None
    snapshot: str | None


def cases() -> Iterator[tuple[dict[str, Any], TypeInfo, str, dict[str, Any]]]:
    for recording in RECORDINGS:
        for case in recording["cases"]:
            for form, found in case["forms"].items():
                yield case, type_info(case["type"]), form, found


def recorded() -> Iterator[Recorded]:
    for case, kind, form, found in cases():
        of_snapshot = found.get("snapshot", found["stream"])
        for text, *seen in zip(case["texts"], found["stream"], of_snapshot, strict=True):
            yield Recorded(form, case["declaration"], kind, case["typmod"], text, *seen)


RECORDED = list(recorded())


def meaning(value: Recorded, document: str | None) -> Any:
    """The parsed JSON, its numbers by value: single, double, or whole."""
    if document is None:
        return OMITTED
    base = value.type.element.base if value.type.element else value.type.base
    if base == "float4":
        return json.loads(document, parse_int=_single, parse_float=_single)
    is_double = base in ("float8", "numeric", "money")
    return json.loads(document, parse_int=float if is_double else int)


def _single(text: str) -> bytes:
    return struct.pack("f", float(text))
