"""Columns of numbers are, value by value, what the encoders of single values give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc.columnar import values as columns
from cdc.columnar.tuples import Column as Cells
from cdc.columnar.values import column_to_json
from cdc.errors import ProtocolError
from cdc.events.form import Form
from cdc.events.values.encoder import encoder
from tests.support.events.random_frames import base

MODES = ("adaptive", "connect", "microseconds", "nanoseconds")
CENTS = (18 << 16 | 2) + 4
WHOLE = (18 << 16) + 4


def of_fraction(moment: datetime | time, space: str = " ") -> str:
    """As PostgreSQL writes it: without closing zeros."""
    text = moment.isoformat(sep=space) if isinstance(moment, datetime) else moment.isoformat()
    return text.rstrip("0") if "." in text else text


TEXTS: dict[str, st.SearchStrategy[str]] = {
    "date": st.dates(date(1, 1, 1)).map(lambda one: one.isoformat()),
    "time": st.times().map(of_fraction) | st.just("24:00:00"),
    "timestamp": st.datetimes(datetime(1, 1, 1)).map(of_fraction),
}
ODD: dict[str, list[str]] = {
    "date": ["infinity", "0044-03-15 BC", "12345-01-01", "2024-02-3x", "2024/02/03", ""],
    "time": ["12:34", "12:34:56.", "12-34-56", "1x:00:00"],
    "timestamp": [
        "-infinity",
        "0044-03-15 12:00:00 BC",
        "2024-02-29T12:00:00",
        "2024-02-29 12:00:00.",
    ],
}


def same(texts: list[str], kind: str, typmod: int, form: Form) -> None:
    each = encoder(base(kind), typmod, form)
    assert each is not None
    column = Cells(pa.array([text.encode() for text in texts], pa.binary()), None, None)
    try:
        expected = [each(text.encode()) for text in texts]
    except ProtocolError:
        with pytest.raises(ProtocolError):
            column_to_json(base(kind), typmod, form)(column)
        return
    json = column_to_json(base(kind), typmod, form)(column)
    assert [json.lead + cell.as_py() + json.trail for cell in json.cells] == expected


@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), mode=st.sampled_from(MODES), precision=st.sampled_from([-1, 0, 3, 6]))
def test_moments(kind: str, data: st.DataObject, mode: str, precision: int) -> None:
    one = TEXTS[kind] | st.sampled_from(ODD[kind]) if data.draw(st.booleans()) else TEXTS[kind]
    texts = data.draw(st.lists(one, min_size=1, max_size=20))
    same(texts, kind, precision, Form(times=mode))  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(
    units=st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1, max_size=20),
    mode=st.sampled_from(["precise", "double"]),
)
@example(units=[-128, 127, 128, -129, 0, -1, 32767, -32768, 2**31, -(2**31) - 1], mode="precise")
@example(units=[-(2**47), 2**47, 2**55 - 1, -(2**55) - 1, 10**18 - 1], mode="precise")
def test_decimals(units: list[int], mode: str) -> None:
    form = Form(decimals=mode)  # type: ignore[arg-type]
    same(
        [str(Decimal(one).scaleb(-2).quantize(Decimal("0.01"))) for one in units],
        "numeric",
        CENTS,
        form,
    )
    same([str(one) for one in units], "numeric", WHOLE, form)


@pytest.mark.parametrize(
    "text", ["NaN", "-.50", ".50", "1.5", "--1.50", "1-1.50", "1.50.", "-", "", "1.500", "1"]
)
@pytest.mark.parametrize("mode", ["precise", "double"])
def test_what_looks_otherwise_is_encoded_or_refused_as_alone(text: str, mode: str) -> None:
    form = Form(decimals=mode)  # type: ignore[arg-type]
    for typmod in (CENTS, WHOLE):
        same(["1.50", text], "numeric", typmod, form)


@pytest.mark.parametrize(
    ("kind", "typmod", "form", "text"),
    [
        ("date", -1, Form(times="adaptive"), "2024-02-29"),
        ("time", -1, Form(times="adaptive"), "12:34:56.5"),
        ("timestamp", 3, Form(times="adaptive"), "2024-02-29 12:00:00.5"),
        ("timestamp", -1, Form(times="nanoseconds"), "2024-02-29 12:00:00"),
        ("numeric", CENTS, Form(decimals="precise"), "-1234.56"),
        ("numeric", -1, Form(decimals="double"), "1234.56"),
    ],
)
def test_what_nearly_all_values_are_does_not_go_one_by_one(
    kind: str, typmod: int, form: Form, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*_: object) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(columns, "_slowly", slowly)
    encode: Callable[[Cells], object] = column_to_json(base(kind), typmod, form)
    encode(Cells(pa.array([text.encode()] * 3, pa.binary()), None, None))
