"""Records of every type in some forms, to be compared with what Connect's AvroConverter makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cdc.events.envelope import ChangeEncoder, SourceContext, Transaction, clock
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.formats.packing import packed_schema
from cdc.events.schemas.event_schemas import MESSAGE_VALUE, TRANSACTION_VALUE, key_schema
from cdc.events.schemas.schema import Schema
from cdc.protocol.messages import Values
from cdc.protocol.relation import Column, Relation
from tests.support.events.random_frames import TYPES, base

FORMS: Final[dict[str, Form]] = {
    "ours": replace(OURS, format="avro", schemas=True),
    "preset": replace(DEBEZIUM, format="avro"),
    "connect": replace(DEBEZIUM, format="avro", times="connect", decimals="double", hstores="map"),
}
_MORE: Final[dict[str, tuple[int, list[bytes | None]]]] = {
    "int2": (-1, [b"7", b"-1"]),
    "float4": (-1, [b"1.5", b"-0.1"]),
    "bit": (5, [b"10101", b"00000"]),
    "hstore": (-1, [b'"a"=>"1", "b"=>NULL', b""]),
    "interval": (-1, [b"P1DT2H", b"P0D"]),
    "point": (-1, [b"(1,2)", None]),
}
_LEFT_OUT: Final = (b"NaN", b"Infinity", b"-Infinity", b"-0")
"""Connect's JsonConverter, which brings the records in, has no such numbers."""
_MESSAGE: Final = (
    b'{"op":"m","ts_ms":5,"source":{"version":"1","connector":"postgresql","name":"s","ts_ms":1,'
    b'"snapshot":"false","db":"d","sequence":"[null,\\"9\\"]","ts_us":1,"ts_ns":1,"schema":"",'
    b'"table":"","txId":7,"lsn":9,"xmin":null,"origin":null,"origin_lsn":null,"commit_lsn":9,'
    b'"ordinal":1,"schema_id":null,"unchanged":null},"transaction":null,'
    b'"message":{"prefix":"p","content":"aGVsbG8=","omitted":{"bytes":5,"sha256":"ab"}}}'
)
_TRANSACTION: Final = (
    b'{"status":"END","id":"7:9","event_count":2,"data_collections":'
    b'[{"data_collection":"public.t","event_count":2}],"ts_ms":5}'
)


class Given(NamedTuple):
    """``text`` is the JSON that a record with this schema is made of."""

    name: str
    schema: Schema
    text: bytes


def every_type() -> tuple[Relation, list[Values]]:
    """A table with a column of each type, and two rows of it."""
    kinds = {re.sub(r"\W", "_", name): of for name, of in TYPES.items()}
    columns = (
        Column("id", base("int4"), -1, False),
        *(Column(name, of[0], of[1], False) for name, of in kinds.items()),
        *(Column(f"more_{name}", base(name), typmod, True) for name, (typmod, _) in _MORE.items()),
    )
    texts: list[list[bytes | None]] = [
        [text for text in of[2] if text not in _LEFT_OUT] for of in kinds.values()
    ]
    texts += [values for _, values in _MORE.values()]
    rows: list[Values] = [
        [b"%d" % row, *(some[row % len(some)] for some in texts)] for row in range(2)
    ]
    return Relation(7, "public", "t", "d", columns, ("id",)), rows


def given() -> Iterator[Given]:
    """All records."""
    table, rows = every_type()
    for name, form in FORMS.items():
        encoder = ChangeEncoder(table, SourceContext("1", "s", "d", form))
        encoder.begin(Transaction(1000, 1_700_000_000_000_000, 77, 990))
        for row, values in enumerate(rows):
            image = encoder.rows.row(values)
            event = encoder.value(b"null", image, b'"c"', 10, row + 1, clock(5))
            yield Given(f"{name} {row}", packed_schema(table, "s", form), event)
    yield Given("key", key_schema(table, "s", FORMS["ours"]), b'{"id":5}')
    yield Given("message", MESSAGE_VALUE, _MESSAGE)
    yield Given("transaction", TRANSACTION_VALUE, _TRANSACTION)
