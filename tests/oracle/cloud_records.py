"""Events of every type in some forms, for what Debezium's CloudEventsConverter makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cdc.events.change_encoder import change_encoder
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.transactions import NO_BLOCK
from cdc.protocol.messages import Values
from tests.oracle.avro_records import every_type

FORMS: Final[dict[str, Form]] = {
    "ours": replace(OURS, schemas=True),
    "preset": DEBEZIUM,
    "connect": replace(DEBEZIUM, times="connect", decimals="double", hstores="map"),
}
_AT: Final = Transaction(1000, 1_700_000_000_123_456, 77, 990)
_OTHERS: Final = {
    "whole second": _AT._replace(commit_us=1_700_000_000_000_456, previous_end_lsn=None),
    "origin": _AT._replace(origin='far "away"', origin_lsn=7),
    "no number": _AT._replace(xid=None),
}
_BLOCK: Final = b'{"id":"77:1000","total_order":1,"data_collection_order":2}'


class Case(NamedTuple):
    """An event, as it is with its schema, without ``unchanged``, which the converter does not take,
    and what is made of it. ``schemas``: whether ``data`` has its schema."""

    name: str
    schemas: bool
    event: bytes
    cloud_event: bytes


def cases() -> Iterator[Case]:
    """All records."""
    _, rows = every_type()
    key: Values = [text if i == 0 else None for i, text in enumerate(rows[0])]
    for name, form in FORMS.items():
        for number, row in enumerate(rows):
            yield _case(f"{name} {number}", form, _AT, "c", ([], row), schemas=name == "preset")
        yield _case(f"{name} d", form, _AT, "d", (key, []))
    form = FORMS["ours"]
    yield _case("t", form, _AT, "t", ([], []))
    yield _case("u full", form, _AT, "u", (rows[0], rows[1]))
    yield _case("r", form, _AT, "r", ([], rows[0]), marker="first")
    yield _case("block", form, _AT, "c", ([], rows[0]), block=_BLOCK)
    for name, at in _OTHERS.items():
        yield _case(name, form, at, "c", ([], rows[0]))


def _case(
    name: str,
    form: Form,
    at: Transaction,
    op: str,
    images: tuple[Values, Values],
    *,
    schemas: bool = False,
    marker: str = "false",
    block: bytes = NO_BLOCK,
) -> Case:
    table, _ = every_type()
    found = []
    for one in (form, replace(form, content="cloudevents", schemas=schemas)):
        encoder = change_encoder(table, SourceContext("1", "s", "d", one))
        encoder.begin(at, marker)
        # Values fit their schemas in both, whether they are there or not.
        images_of = change_encoder(table, SourceContext("1", "s", "d", form)).rows
        before, after = (images_of.row(image) if image else b"null" for image in images)
        code, tail = b'"%b"' % op.encode(), encoder.tail(b"", block)
        found.append(encoder.value(before, after, code, 10, 3, clock(5_000_007), tail))
    return Case(name, schemas, _without_unchanged(found[0]), found[1])


def _without_unchanged(event: bytes) -> bytes:
    document = json.loads(event)
    (source,) = [one for one in document["schema"]["fields"] if one["field"] == "source"]
    source["fields"] = [one for one in source["fields"] if one["field"] != "unchanged"]
    document["payload"]["source"].pop("unchanged", None)
    return json.dumps(document, ensure_ascii=False).encode()
