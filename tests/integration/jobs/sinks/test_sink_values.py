"""Keys and values of every type, in every store and back: one suite, run on each real server."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tests.support.events.batches import Change, delete, upsert
from tests.support.servers.stores import LSN, OpenFeed, Store

if TYPE_CHECKING:
    pass


def test_composite_keys_do_not_run_into_each_other(store: Store, open_feed: OpenFeed) -> None:
    columns = StructType().add("a", StringType()).add("b", StringType()).add("n", IntegerType())
    feed = open_feed(store, columns, ("a", "b"))
    keys = [("x", "y,z"), ("x,y", "z"), ('x","y', "z"), ("", "x"), ("x", ""), ("x:y", "z")]
    feed.apply(*(upsert(LSN, i, a=a, b=b, n=i) for i, (a, b) in enumerate(keys)))
    feed.apply(delete(LSN + 1, a="x", b="y,z"), upsert(LSN + 1, 2, a="x,y", b="z", n=100))
    rows = feed.rows()
    assert rows.keys() == set(keys[1:])
    assert rows[("x,y", "z")].values["n"] == 100
    assert feed.found(keys) == set(keys[1:])


ODD_KEYS = (
    "",
    " ",
    "a:b",
    "a*b?[c]\\",
    "q\"u'o`te",
    "line\nbreak\ttab",
    "\u00fcml\u00e4ut \u4e2d\u6587 \U0001f600",
    "[1]",
    "null",
    "k" * 600,
    "k" * 599 + "l",
    "\U0001f600" * 150,
    "_id",
)


def test_odd_text_keys(store: Store, open_feed: OpenFeed) -> None:
    columns = StructType().add("id", StringType()).add("n", IntegerType())
    feed = open_feed(store, columns)
    feed.apply(*(upsert(LSN, i + 1, id=key, n=i) for i, key in enumerate(ODD_KEYS)))
    assert feed.values("n") == {key: i for i, key in enumerate(ODD_KEYS)}
    feed.apply(*(upsert(LSN + 1, i + 1, id=key, n=-i) for i, key in enumerate(ODD_KEYS)))
    assert feed.values("n") == {key: -i for i, key in enumerate(ODD_KEYS)}
    assert feed.found((key,) for key in (*ODD_KEYS[1:], "absent")) == {(k,) for k in ODD_KEYS[1:]}
    assert feed.found([]) == set()
    feed.apply(*(delete(LSN + 2, i + 1, id=key) for i, key in enumerate(ODD_KEYS)))
    assert feed.rows() == {}


KEY_VALUES: list[tuple[Any, list[Any]]] = [
    (LongType(), [-1, 0, 2**63 - 1, -(2**63)]),
    (IntegerType(), [-1, 0, 2**31 - 1]),
    (DecimalType(20, 4), [Decimal("1.5000"), Decimal("-12345678901234.5678")]),
    (DateType(), [date(1500, 2, 28), date(2024, 2, 29)]),
    (TimestampType(), [datetime(2024, 2, 29, 12, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
    (BooleanType(), [True, False]),
    (BinaryType(), [b"", b"\x00\xff"]),
]


@pytest.mark.parametrize(("kind", "keys"), KEY_VALUES, ids=lambda v: getattr(v, "typeName", str)())
def test_a_key_of_any_type(served: Store, open_feed: OpenFeed, kind: Any, keys: list[Any]) -> None:
    columns = StructType().add("id", kind).add("n", IntegerType())
    feed = open_feed(served, columns)
    feed.apply(*(upsert(LSN, i + 1, id=key, n=i) for i, key in enumerate(keys)))
    feed.apply(upsert(LSN + 1, id=keys[0], n=99), delete(LSN + 1, 2, id=keys[1]))
    expected = {(key,): i for i, key in enumerate(keys) if i != 1} | {(keys[0],): 99}
    assert {key: row.values["n"] for key, row in feed.rows().items()} == expected
    assert feed.found((key,) for key in keys) == expected.keys()


def test_a_key_of_all_types(store: Store, open_feed: OpenFeed) -> None:
    columns, key = StructType(), tuple(f"k{i}" for i in range(len(KEY_VALUES)))
    for name, (kind, _) in zip(key, KEY_VALUES, strict=True):
        columns = columns.add(name, kind)
    feed = open_feed(store, columns.add("n", IntegerType()), key)
    first, second = (
        dict(zip(key, (values[i] for _, values in KEY_VALUES), strict=True)) for i in (0, 1)
    )
    feed.apply(upsert(LSN, n=1, **first), upsert(LSN, 2, n=2, **second))
    feed.apply(upsert(LSN + 1, n=11, **first), delete(LSN + 1, 2, **second))
    found = {key: row.values["n"] for key, row in feed.rows().items()}
    assert found == {tuple(first.values()): 11}
    assert feed.found([tuple(first.values()), tuple(second.values())]) == found.keys()


LINE = (
    StructType()
    .add("sku", StringType())
    .add("count", LongType())
    .add("price", DecimalType(10, 2))
    .add("rate", DoubleType())
    .add("gift", BooleanType())
    .add("at", TimestampType())
    .add("on", DateType())
    .add("raw", BinaryType())
    .add("tags", ArrayType(StringType()))
    .add("of", StructType().add("id", LongType()))
)
"""A row that a view nests."""


def line(sku: str | None, **more: Any) -> dict[str, Any]:
    return dict.fromkeys(LINE.names) | {"sku": sku, **more}


LINES = [
    line(
        'q"\\,\n\u00df',
        count=2**53 + 1,
        price=Decimal("1.50"),
        rate=math.inf,
        gift=True,
        at=datetime(2024, 2, 29, 12, 0, 0, 1, UTC),
        on=date(1500, 2, 28),
        raw=b"\x00\xff",
        tags=["a,b", None],
        of={"id": -(2**63)},
    ),
    line(None, rate=0.1, gift=False, tags=[], of={"id": None}),
]

VALUES: list[tuple[Any, list[Any]]] = [
    (ShortType(), [-32768, 32767, None]),
    (IntegerType(), [-(2**31), 2**31 - 1, None]),
    (LongType(), [2**53 + 1, -(2**63), 2**63 - 1]),
    (FloatType(), [0.10000000149011612, -0.0, 3.4028234663852886e38, math.nan, -math.inf]),
    (DoubleType(), [0.1, -0.0, 1e300, 5e-324, math.nan, math.inf, -math.inf]),
    (DecimalType(38, 10), [Decimal("12345678901234567890123456.0123456789"), Decimal("0E-10")]),
    (DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(-1)]),
    (BooleanType(), [True, False, None]),
    (StringType(), ["", "null", 'q"\\/\u2028\x01\x7f', "\U0001f600 \u00df", "x" * 100_000]),
    (StringType(), ['{"a": 1.0, "b":"\\u00e9"}', " [1, 2] ", "2024-02-29T12:00:00Z", "NaN"]),
    (BinaryType(), [b"", bytes(range(256)), None]),
    (DateType(), [date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 10), date(9999, 12, 31)]),
    (
        TimestampType(),
        [
            datetime(2024, 2, 29, 12, 0, 0, 123456, UTC),
            datetime(1500, 2, 28, 23, 59, 59, 999999, UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        ],
    ),
    (TimestampNTZType(), [datetime(2024, 3, 31, 2, 30, 0, 1), datetime(1582, 10, 10), None]),
    (ArrayType(IntegerType()), [[1, None, -2], [], None, [None]]),
    (ArrayType(StringType()), [["a,b", None, '"', "\U0001f600"]]),
    (ArrayType(DecimalType(10, 2)), [[Decimal("1.50"), None]]),
    (ArrayType(DoubleType()), [[math.nan, 1.5, None, math.inf]]),
    (ArrayType(BinaryType()), [[b"\x00\xff", None]]),
    (ArrayType(TimestampType()), [[datetime(2024, 2, 29, 12, 0, 0, 1, UTC), None]]),
    (ArrayType(DateType()), [[date(1500, 2, 28), None]]),
    (ArrayType(ArrayType(IntegerType())), [[[1, None], [], None]]),
    (LINE, [*LINES, None]),
    (ArrayType(LINE), [LINES, [], None, [None, LINES[1]]]),
]


def test_every_type_comes_back_as_it_was(store: Store, open_feed: OpenFeed) -> None:
    columns = StructType().add("id", LongType())
    for i, (kind, _) in enumerate(VALUES):
        columns = columns.add(f"c{i}", kind)
    feed = open_feed(store, columns)
    longest = max(len(values) for _, values in VALUES)
    expected: dict[int, dict[str, Any]] = {}
    for row in range(longest):
        values = {f"c{i}": (v[row] if row < len(v) else None) for i, (_, v) in enumerate(VALUES)}
        expected[row] = {"id": row, **values}
    feed.apply(*(Change(values, LSN, row + 1) for row, values in expected.items()))
    found = {key[0]: row.values for key, row in feed.rows().items()}
    for row, values in expected.items():
        for name, value in values.items():
            assert _told(found[row][name]) == _told(value), f"{name} of type {columns[name]}"


def _told(value: Any) -> Any:
    """Type and value, so that NaN equals NaN, -0.0 is not 0.0 and True is not 1."""
    if isinstance(value, list):
        return [_told(element) for element in value]
    if isinstance(value, dict):
        return {name: _told(of) for name, of in value.items()}
    if isinstance(value, datetime):
        return (value.tzinfo is not None, value)
    return (type(value), repr(value))


def test_times_outside_of_pythons_years_are_text(store: Store, open_feed: OpenFeed) -> None:
    columns = StructType().add("id", LongType())
    columns = columns.add("at", TimestampType()).add("on", DateType())
    feed = open_feed(store, columns)
    rows = feed.spark.sql(
        f"select *, false as __deleted, {LSN}L as __commit_lsn, 1L as __ordinal,"
        " cast(array() as array<string>) as __unchanged, current_timestamp() as __committed_at"
        " from values"
        " (1L, timestamp'12024-02-29 12:00:00.5Z', date'-0044-03-15'),"
        " (2L, timestamp'+32767-12-31 23:59:59.999999Z', date'+32767-12-31') as t(id, at, on)"
    )
    feed.sink.apply(rows, feed.batch(2, 1))
    odd = {"id": 1, "at": "+12024-02-29T12:00:00.500000Z", "on": "-0044-03-15"}
    last = {"id": 2, "at": "+32767-12-31T23:59:59.999999Z", "on": "+32767-12-31"}
    found = {key: of.values for key, of in feed.rows().items()}
    assert found == {(1,): odd, (2,): last}
