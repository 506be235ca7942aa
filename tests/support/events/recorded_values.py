"""Values that real Debezium emitted (``tests/oracle``), and where ours differ from them: in each
Debezium loses, invents or omits the value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdc.columnar.tuples import Column
from cdc.columnar.values import column_to_json
from cdc.events.form import OURS, Form
from cdc.events.values.encoder import column_encoder, encoder
from cdc.protocol.relation import TypeInfo

ORACLE: Final = Path(__file__).parents[2] / "oracle"

OMITTED = "the column is omitted"
REPLACED = "the value is replaced by null"
INFINITY = "infinity becomes a date, or nothing"
LENGTH = "the number of bits is lost"
MIDNIGHT = "the end of the day becomes its start"
DIMENSIONS = "dimensions or bounds are lost"
PRECISION = "microseconds are lost"
EMPTIED = "the numbers are lost"
CLOSED = "whether the last point is the polygon's own is lost"
SCALE = "two thousand digits that the value does not have"

BOX = (
    '{"wkb":"AQMAAAABAAAABQAAAAAAAAAAAAhAAAAAAAAAEEAAAAAAAAAIQAAAAAAAAABAAAAAAAAA8D8AAAAAAAAAQAAA'
    'AAAAAPA/AAAAAAAAEEAAAAAAAAAIQAAAAAAAABBA","srid":null,"extensions":{"type":"box"}}'
)

LOST: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("name", "n"): (REPLACED, '"n"'),
    ("timetz", "12:00:00+05:30:15"): (REPLACED, '"06:29:45Z"'),
    ("numeric[]", "{1.10,NaN}"): (REPLACED, '["1.10","NAN"]'),
    ("bit(3)[]", "{101}"): (REPLACED, '["BQ=="]'),
    ("bit(1)[]", "{1,0}"): (REPLACED, "[true,false]"),
    ("box[]", "{(3,4),(1,2);(3,4),(1,2)}"): (REPLACED, f"[{BOX},{BOX}]"),
    ("date", "infinity"): (INFINITY, '"infinity"'),
    ("date", "-infinity"): (INFINITY, '"-infinity"'),
    ("timestamp", "infinity"): (INFINITY, '"infinity"'),
    ("timestamp", "-infinity"): (INFINITY, '"-infinity"'),
    ("interval", "infinity"): (INFINITY, '"infinity"'),
    ("time", "24:00:00"): (MIDNIGHT, '"24:00:00Z"'),
    ("varbit", "1"): (LENGTH, '"1"'),
    ("varbit", "101"): (LENGTH, '"101"'),
    ("varbit", "100000001"): (LENGTH, '"100000001"'),
    ("varbit", "0001"): (LENGTH, '"0001"'),
    ("varbit(5)", "101"): (LENGTH, '"101"'),
    ("numeric(5,-2)", "12300"): (SCALE, '"12300"'),
    ("numeric(5,-2)", "-100000"): (SCALE, '"-100000"'),
    ("tsquery", "'a' & 'b'"): (OMITTED, "\"'a' & 'b'\""),
    ("int4multirange", "{[1,5),[7,9)}"): (OMITTED, '"{[1,5),[7,9)}"'),
    ("pair", "(1,x)"): (OMITTED, '"(1,x)"'),
    ("pg_lsn", "0/16B3748"): (OMITTED, '"0/16B3748"'),
    ("regclass", "pg_class"): (OMITTED, '"pg_class"'),
    ("jsonpath", '$."a"'): (OMITTED, '"$.\\"a\\""'),
    ("name[]", "{a}"): (OMITTED, '["a"]'),
    ("positive[]", "{1}"): (OMITTED, "[1]"),
    ("price[]", "{1.50}"): (OMITTED, '["1.50"]'),
    ("money[]", "{$1.50}"): (OMITTED, '["1.50"]'),
    ("interval[]", "{P1D}"): (OMITTED, '["P0Y0M1DT0H0M0S"]'),
    ("varbit[]", "{101}"): (OMITTED, '["101"]'),
    ("point[]", '{"(1,2)"}'): (
        OMITTED,
        '[{"x":1,"y":2,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}]',
    ),
    ("xml[]", "{<a/>}"): (OMITTED, '["<a/>"]'),
    ("pair[]", '{"(1,x)"}'): (OMITTED, '["(1,x)"]'),
}
"""Why, and our JSON, by declaration and PostgreSQL's text, in the form of no settings and in some
of each other."""
DIFFERENCES: Final = LOST | {
    ("circle[]", '{"<(1,2),3>"}'): (
        REPLACED,
        '[{"center":{"x":1,"y":2,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null},"radius":3}]',
    ),
    **{
        ("polygon", text): (
            CLOSED,
            f'{{"wkb":"{wkb}","srid":null,"extensions":{{"type":"polygon","closed":"true"}}}}',
        )
        for text, wkb in {
            "((1,1))": "AQMAAAABAAAAAQAAAAAAAAAAAPA/AAAAAAAA8D8=",
            "((1,2),(3,4),(1,2))": "AQMAAAABAAAAAwAAAAAAAAAAAPA/AAAAAAAAAEAAAAAAAAAIQAAAAAAA"
            "ABBAAAAAAAAA8D8AAAAAAAAAQA==",
            "((0,-0),(-0,0))": "AQMAAAABAAAAAgAAAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAAAA",
        }.items()
    },
    ("mood[]", "{sad,NULL}"): (REPLACED, '["sad",null]'),
    ("time[]", "{12:34:56.123456}"): (PRECISION, '["12:34:56.123456Z"]'),
    ("oidvector", "1 2"): (EMPTIED, '"1 2"'),
    ("int2vector", "1 2"): (EMPTIED, '"1 2"'),
    ("int4[]", "{{1,2},{3,4}}"): (DIMENSIONS, "[[1,2],[3,4]]"),
    ("int4[]", "[0:1]={1,2}"): (DIMENSIONS, '"[0:1]={1,2}"'),
    ("text[]", "{{a,b},{c,NULL}}"): (DIMENSIONS, '[["a","b"],["c",null]]'),
}
"""The same, and all others, in the form of no settings."""


class Recorded(NamedTuple):
    """One value as PostgreSQL streamed it and as Debezium emitted it."""

    declaration: str
    type: TypeInfo
    typmod: int
    text: str
    debezium: str | None
    """JSON; None when the event did not have the column."""


def type_info(structure: dict[str, Any]) -> TypeInfo:
    """A recorded type."""
    element, labels = structure["element"], tuple(structure.get("labels", ()))
    return TypeInfo(
        **structure
        | {"oid": 0, "element": type_info(element) if element else None, "labels": labels}
    )


def recorded() -> list[Recorded]:
    """Every recorded value."""
    return [
        Recorded(
            case["declaration"],
            type_info(case["type"]),
            case["typmod"],
            value["text"],
            value["debezium"],
        )
        for name in ("debezium_values.json", "debezium_extension_values.json")
        for case in json.loads((ORACLE / name).read_text(encoding="utf-8"))["cases"]
        for value in case["values"]
    ]


RECORDED = recorded()


def made(kind: TypeInfo, typmod: int, text: str, form: Form = OURS) -> str:
    """Our JSON of a text of PostgreSQL, by the encoder of single values."""
    encode = encoder(kind, typmod, form)
    return (text.encode() if encode is None else encode(text.encode())).decode()


def made_by_column(kind: TypeInfo, typmod: int, text: str, form: Form = OURS) -> list[str]:
    """The same by the encoder of a snapshot's columns, and of a stream's."""
    cell = text.encode()
    of_snapshot = column_encoder(kind, typmod, form)
    (read,) = of_snapshot([cell]) if of_snapshot else [cell]
    of_stream = column_to_json(kind, typmod, form)(
        Column(pa.array([cell], pa.binary()), None, None)
    )
    streamed: Any = of_stream.cells[0].as_py()
    return [read.decode(), (of_stream.lead + streamed + of_stream.trail).decode()]
