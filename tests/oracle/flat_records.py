"""Events of every type in some forms, for what ``ExtractNewRecordState`` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, get_args

from cdc.events.change_encoder import change_encoder
from cdc.events.envelope import SourceContext, Transaction, clock
from cdc.events.form import DEBEZIUM, OURS, Deletes, Form
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
