"""Events of every type in some forms, for what ``ExtractNewRecordState`` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple, get_args

from cdc.events.change_encoder import change_encoder
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.flat.row_encoder import FlatEncoder
from cdc.events.form import DEBEZIUM, OURS, Deletes, Form
from cdc.events.records import Header
from cdc.protocol.messages import Values
from cdc.protocol.relation import Column, Relation
from tests.oracle.avro_records import every_type
from tests.support.events.random_frames import base

ADDED: Final = (
    "op,lsn,source.ts_ms,table,ts_ms,op:kind,source.snapshot,commit_lsn,sequence,txId,xmin,"
    "schema_id,source.db,ts_us,ts_ns,ordinal,origin,origin_lsn,version,connector,name,schema"
)
_FORMS: Final[dict[str, Form]] = {
    "ours": replace(OURS, schemas=True),
    "preset": DEBEZIUM,
    "connect": replace(DEBEZIUM, times="connect", decimals="double", hstores="map"),
}
_SMALL: Final = Relation(
    7,
    "public",
    "t",
    "d",
    (
        Column("id", base("int4"), -1, True, False),
        Column("a", base("text"), -1, False, True),
        Column("n", base("int8"), -1, False, False),
    ),
    ("id",),
)
_AT: Final = Transaction(1000, 1_700_000_000_123_456, 77, 990)


HEADERS: Final = (
    "op,lsn,source.ts_ms,op:kind,source.snapshot,sequence,txId,xmin,origin,origin_lsn,ts_ms,ts_us,"
    "ts_ns,table,schema,name,db,version,connector,commit_lsn,ordinal,schema_id"
)


class Case(NamedTuple):
    """An event, as it is with its schema, and the row that is made of it; both empty for none."""

    name: str
    settings: str
    event: bytes
    row: bytes


def cases() -> Iterator[Case]:
    """Each kind of delete with a small table, with and without added fields; rewritten deletes
    with all types."""
    table, rows = every_type()
    for name, form in _FORMS.items():
        for number, row in enumerate(rows):
            yield from _cases(f"{name} {number}", table, row, replace(form, deletes="rewrite"))
    small: Values = [b"1", b"x", b"5"]
    for mode in get_args(Deletes):
        form = replace(_FORMS["ours"], deletes=mode)
        yield from _cases(f"{mode} plain", _SMALL, small, form)
        yield from _cases(mode, _SMALL, small, replace(form, added=ADDED))
        full = replace(_SMALL, replica_identity="f")
        yield from _cases(f"{mode} full", full, small, replace(form, added="op"))


def _cases(name: str, table: Relation, row: Values, form: Form) -> Iterator[Case]:
    settings = f"delete.tombstone.handling.mode={form.deletes}"
    settings += f";add.fields={form.added}" if form.added else ""
    made = [change_encoder(table, SourceContext("1", "s", "d", one)) for one in
            (form, replace(form, content="row"))]  # fmt: skip
    key: Values = [text if i == 0 else None for i, text in enumerate(row)]
    old = row if table.replica_identity == "f" else key
    for op, marker in (("c", "false"), ("u", "false"), ("r", "first"), ("d", "false")):
        found = []
        for encoder in made:
            encoder.begin(_AT, marker)
            image = encoder.rows.row(old if op == "d" else row)
            images = (image, b"null") if op == "d" else (b"null", image)
            code = b'"%b"' % op.encode()
            found.append(encoder.value(*images, code, 10, 3, clock(5_000_007)))
        yield Case(f"{name} {op}", settings, *found)


class HeaderCase(NamedTuple):
    """An event, empty for a tombstone, and the headers of the record that is made of it, None where
    there is no record."""

    name: str
    settings: str
    event: bytes
    headers: list[tuple[str, str | None]] | None


def header_cases() -> Iterator[HeaderCase]:
    """Each kind of delete, with prefixes."""
    key: Values = [b"1", None, None]
    row: Values = [b"1", "ü☃".encode(), b"5"]
    odd = replace(_SMALL, table="ü \\ %")
    for mode, prefix in product(get_args(Deletes), ("__", "x-", "")):
        form = replace(_FORMS["ours"], deletes=mode, headers=HEADERS, header_prefix=prefix)
        rows = replace(form, content="row")
        settings = f"delete.tombstone.handling.mode={mode};add.headers={HEADERS}"
        settings += f";add.headers.prefix={prefix}" if prefix != "__" else ""
        for op, marker in (("c", "false"), ("u", "false"), ("r", "first"), ("d", "false")):
            events = change_encoder(odd, SourceContext("1", "ä", "d%d", form))
            encoder = FlatEncoder(odd, SourceContext("1", "ä", "d%d", rows))
            code = b'"%b"' % op.encode()
            for one in (events, encoder):
                one.begin(_AT, marker)
            image = events.rows.row(key if op == "d" else row)
            images = (image, b"null") if op == "d" else (b"null", image)
            event = events.value(*images, code, 10, 3, clock(5_000_007))
            told = _texts(encoder.headers(code, 10, 3, clock(5_000_007)))
            gone = op == "d" and mode == "drop"
            name = f"headers {mode} {prefix}"
            yield HeaderCase(f"{name} {op}", settings, event, None if gone else told)
            if op == "d":
                told = _texts(encoder.headers(code, 10, 3, clock(5_000_007), told=True))
                owes = mode == "rewrite-with-tombstone"
                yield HeaderCase(f"{name} tombstone", settings, b"", told if owes else None)


def _texts(headers: list[Header]) -> list[tuple[str, str | None]]:
    return [(name, None if text is None else text.decode()) for name, text in headers]
