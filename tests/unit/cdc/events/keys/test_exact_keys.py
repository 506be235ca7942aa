"""Two values of a key column are two keys, in every form: what a mode does not hold is refused,
row by row, by column and in snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from struct import pack

import pytest

from cdc.columnar import feed as columnar
from cdc.columnar.feed import ColumnarFeed
from cdc.columnar.formats.snapshot import snapshot_encoder
from cdc.errors import SourceError
from cdc.events.change import Transcriber
from cdc.events.envelope import SourceContext
from cdc.events.form import DEBEZIUM, OURS, Form
from cdc.events.keys.exactness import guard_of, key_guards, noted
from cdc.events.rows import RowEncoder
from cdc.protocol.messages import RelationMessage
from cdc.protocol.relation import Column, Relation, TypeInfo
from cdc.protocol.wire import Arrived
from tests.support.events.random_frames import base
from tests.unit.cdc.columnar.test_formats import Registry

NOW_US = 1_700_000_000_000_000
PRECISE, DOUBLE = (Form(decimals=mode) for mode in ("precise", "double"))
NANOS, MICROS, CONNECT, ADAPTIVE = (
    Form(times=mode) for mode in ("nanoseconds", "microseconds", "connect", "adaptive")
)
INTERVALS, WRAPPED = Form(intervals="numeric"), Form(schemas=True)
SCALED = (10 << 16 | 2) + 4


def array(element: str) -> TypeInfo:
    return TypeInfo(1, "pg_catalog", f"_{element}", "array", "array", element=base(element))


# type, typmod, form, what is held, what is not
CASES = [
    ("numeric", -1, PRECISE, [b"1.50", b"-7"], [b"NaN", b"Infinity", b"-Infinity"]),
    ("numeric", SCALED, PRECISE, [b"1.50", b"-7.00"], [b"NaN"]),
    ("numeric", -1, DOUBLE, [b"0.1", b"123456789012345", b"NaN", b"1" + b"0" * 20],
     [b"12345678901234567", b"0.1234567890123456789", b"1" + b"2" * 600, b"9" * 400]),
    ("money", -1, DOUBLE, [b"$1.50", b"-$1,234.56"], [b"$92,233,720,368,547,758.07"]),
    ("timestamp", -1, NANOS, [b"2024-02-29 12:00:00.123456", b"infinity"],
     [b"1600-01-01 00:00:00", b"2300-01-01 00:00:00"]),
    ("timestamp", -1, MICROS, [b"9999-12-31 23:59:59", b"0044-03-15 01:02:03 BC", b"-infinity"],
     [b"294276-12-31 23:59:59"]),
    ("timestamp", -1, ADAPTIVE, [b"2024-02-29 12:00:00.123456"], [b"294276-12-31 23:59:59"]),
    ("timestamp", -1, CONNECT,
     [b"2024-02-29 12:00:00", b"2024-02-29 12:00:00.12", b"0044-03-15 01:02:03.5 BC", b"infinity"],
     [b"2024-02-29 12:00:00.1234", b"0044-03-15 01:02:03.123456 BC"]),
    ("time", -1, CONNECT, [b"24:00:00", b"12:00:00.123"], [b"12:00:00.1234"]),
    ("interval", -1, INTERVALS, [b"P3DT4H5M6.78S", b"PT0S", b"infinity", b"-infinity"],
     [b"P1Y", b"P2M", b"P999999999D"]),
    ("timetz", -1, OURS, [b"12:00:00+00", b"12:00:00+05:30"], []),
]  # fmt: skip
ARRAYS = [
    ("numeric", PRECISE, [b"{1.5,NULL}", b"{}"], [b"{1.5,NaN}"]),
    ("int4", WRAPPED, [b"{1,2}"], [b"{{1,2}}", b"[0:1]={1,2}"]),
    ("int4", OURS, [b"{1,2}", b"{{1,2}}", b"[0:1]={1,2}"], []),
]


def shape(type: TypeInfo, typmod: int) -> Relation:
    key = Column("k", type, typmod, True, False)
    value = Column("v", type, typmod, False)
    return Relation(1, "public", "t", "d", (key, value), ("k",))


def cell(text: bytes) -> bytes:
    return b"t" + pack(">I", len(text)) + text


def stream(kind: str, keys: list[bytes]) -> list[bytes]:
    """A transaction of rows with these keys; deletes have the key alone."""
    frames, lsn = [], 8
    commit = 4096
    payloads = [b"R" + pack(">I", 1) + b"public\0t\0d" + pack(">H", 2)
                + b"\1k\0" + pack(">Ii", 1, -1) + b"\0v\0" + pack(">Ii", 1, -1),
                b"B" + pack(">QqI", commit, 1000, 7)]  # fmt: skip
    for key in keys:
        row = pack(">H", 2) + cell(key) + b"n"
        if kind == "insert":
            payloads.append(b"I" + pack(">I", 1) + b"N" + row)
        elif kind == "delete":
            payloads.append(b"D" + pack(">I", 1) + b"K" + row)
        else:
            old = pack(">H", 2) + cell(keys[0]) + b"n"
            payloads.append(b"U" + pack(">I", 1) + b"K" + old + b"N" + row)
    payloads.append(b"C" + pack(">BQQq", 0, commit, commit + 8, 1000))
    for payload in payloads:
        lsn += 8
        frames.append(b"w" + pack(">QQq", lsn, lsn, 0) + payload)
    return frames


def fed(relation: Relation, form: Form, frames: list[bytes], least: int) -> Transcriber:
    registry = Registry() if form.registered else None
    context = SourceContext("1", "s", "db", form, registry)

    def resolve(_message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return relation

    made = Transcriber(context, resolve, lambda _r, _k, _x: None, lambda _topic: 3, 0)
    feed = ColumnarFeed(made, context, lambda _topic: 3)
    before, columnar.LEAST_FRAMES = columnar.LEAST_FRAMES, least  # type: ignore[misc]
    try:
        feed.feed(Arrived.of(frames), NOW_US)
    finally:
        columnar.LEAST_FRAMES = before  # type: ignore[misc]
    return made


def read(relation: Relation, form: Form, keys: list[bytes]) -> int:
    registry = Registry() if form.registered else None
    encoder = snapshot_encoder(relation, SourceContext("1", "s", "db", form, registry), 64, NOW_US)
    found, _ = encoder.encode(b"".join(key + b"\t\\N\n" for key in keys), len(keys))
    return len(set(found))


Way = Callable[[Relation, Form, list[bytes]], int]
WAYS: dict[str, Way] = {
    "row by row": lambda r, f, k: fed(r, f, stream("insert", k), 10**6).take().count,
    "by column": lambda r, f, k: fed(r, f, stream("insert", k), 1).take().count,
    "deletes": lambda r, f, k: fed(r, f, stream("delete", k), 1).take().count,
    "updates of keys": lambda r, f, k: fed(r, f, stream("update", k), 1).take().count,
    "snapshot": read,
}
FORMS = {
    "plain": lambda form: form,
    "schemas": lambda form: replace(form, schemas=True),
    "avro": lambda form: replace(form, schemas=True, format="avro"),
    "json-schema": lambda form: replace(form, schemas=True, format="json-schema"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize(
    ("type", "typmod", "form", "held", "not_held"),
    [(base(name), *rest) for name, *rest in CASES]
    + [(array(name), -1, *rest) for name, *rest in ARRAYS],
)
def test_a_key_that_does_not_hold_its_value_stops_every_path(
    way: str,
    written: str,
    type: TypeInfo,
    typmod: int,
    form: Form,
    held: list[bytes],
    not_held: list[bytes],
) -> None:
    relation, form = shape(type, typmod), FORMS[written](form)
    if form.schemas and type.element is not None:
        held = [text for text in held if text[:1] != b"[" and text[:2] != b"{{"]
    for good in held:  # none of them is refused
        assert WAYS[way](relation, form, [good, good])
    for bad in not_held:
        if way == "updates of keys" and bad == held[0]:
            continue
        with pytest.raises(SourceError, match=r"public\.t: the key column k .*rows would share"):
            WAYS[way](relation, form, [held[0], bad])


@pytest.mark.parametrize("form", [PRECISE, replace(PRECISE, schemas=True)])
def test_outside_of_keys_what_became_null_is_counted_and_nothing_else(form: Form) -> None:
    """An array of a schema loses its dimensions, which is no null."""
    told: list[int] = []
    table = replace(shape(array("numeric"), -1), key=())
    note = noted(table, table.columns[1], form, lambda _t, _c, count: told.append(count))
    assert note is not None
    note([b"{{1,2},{3,4}}", b"{1,NaN}", b"{1}", b"[0:1]={1,2}"])
    assert told == [1]


def test_the_last_moment_of_64_bits_is_no_infinity() -> None:
    guard = guard_of(Column("k", base("timestamp"), -1, True), MICROS)
    assert guard is not None
    assert not guard.holds(b"294247-01-10 04:00:54.775807")
    assert guard.holds(b"infinity")
    assert guard.holds(b"294247-01-10 04:00:54.775806")


def test_the_error_says_where_and_what_to_do() -> None:
    frames = stream("insert", [b"NaN"])
    with pytest.raises(SourceError) as caught:
        fed(shape(base("numeric"), -1), DEBEZIUM, frames, 1)
    assert "decimal.handling.mode = precise has nothing for NaN and infinity" in str(caught.value)
    assert "transaction that commits at 0/1000" in caught.value.message
    assert 'Set decimal.handling.mode = "string"' in caught.value.hint


@pytest.mark.parametrize(("type", "typmod", "form", "held"), [case[:4] for case in CASES])
def test_held_values_are_keys_of_their_own(
    type: str, typmod: int, form: Form, held: list[bytes]
) -> None:
    rows = RowEncoder(shape(base(type), typmod), form, "s")
    assert len({rows.key([text, None]) for text in held}) == len(held)


def test_the_default_form_has_no_guards() -> None:
    names = ["int8", "numeric", "timestamp", "date", "text", "uuid", "interval", "money", "float8"]
    assert not any(guard_of(Column("k", base(name), -1, True), OURS) for name in names)
    assert not key_guards(shape(base("int4"), -1), DEBEZIUM)


@pytest.mark.parametrize("least", [1, 10**6], ids=["by column", "row by row"])
@pytest.mark.parametrize("written", FORMS)
def test_values_outside_of_keys_that_become_null_are_told_once_each(
    least: int, written: str
) -> None:
    told: list[tuple[str, str, int]] = []
    columns = (
        Column("k", base("int4"), -1, True, False),
        # NOT NULL by now: its NaN takes the columns' way back to rows
        Column("v", base("numeric"), -1, False, False),
    )
    relation = Relation(1, "public", "t", "d", columns, ("k",))
    form = FORMS[written](PRECISE)
    registry = Registry() if form.registered else None
    context = SourceContext("1", "s", "db", form, registry, lambda *what: told.append(what))

    def resolve(_message: RelationMessage, _xid: int, _lsn: int) -> Relation:
        return relation

    made = Transcriber(context, resolve, lambda _r, _k, _x: None, lambda _topic: 3, 0)
    frames = stream("insert", [b"1"])
    frames[2] = frames[2].replace(b"n", cell(b"NaN"))
    feed = ColumnarFeed(made, context, lambda _topic: 3)
    before, columnar.LEAST_FRAMES = columnar.LEAST_FRAMES, least  # type: ignore[misc]
    try:
        feed.feed(Arrived.of(frames), NOW_US)
    finally:
        columnar.LEAST_FRAMES = before  # type: ignore[misc]
    assert told == [("public.t", "v", 1)]
    told.clear()
    snapshot_encoder(relation, context, 64, NOW_US).encode(b"1\tNaN\n2\t1.5\n", 2)
    assert sum(count for _, _, count in told) >= 1
