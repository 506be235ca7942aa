"""A column's values are treated in one way, whoever reads them."""

from __future__ import annotations

import hmac
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.columnar.copy_text import copied_rows, treated_lines
from cdc.columnar.json_objects import joined
from cdc.columnar.tuples import Column as Cells
from cdc.columnar.values import column_of_table
from cdc.errors import UsageError
from cdc.events.values.encoder import cell_encoder
from cdc.protocol.relation import Column, TypeInfo
from cdc.protocol.treatment import Treatment, decrypt
from cdc.source.columns.treated_columns import with_treatment

KEY = b"0123456789abcdef"
TREATMENTS = (
    Treatment("mask", "***"), Treatment("mask", '"é\\'), Treatment("truncate", "2"),
    Treatment("hash", "k", KEY), Treatment("encrypt", "k", KEY),
)  # fmt: skip
DATE = TypeInfo(1082, "pg_catalog", "date", "base", "date")
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8")).map(str.encode)


@pytest.mark.parametrize(
    ("treatment", "value", "sent"),
    [
        (Treatment("mask", "***"), "secret", "***"),
        (Treatment("mask", "***"), "", "***"),
        (Treatment("mask", ""), "secret", ""),
        (Treatment("truncate", "2"), "äöü", "äö"),
        (Treatment("truncate", "2"), "a", "a"),
        (Treatment("truncate", "2"), "", ""),
        (Treatment("hash", "k", KEY), "a", f"k:{hmac.new(KEY, b'a', 'sha256').hexdigest()}"),
    ],
)
def test_each_treatment_gives_text(treatment: Treatment, value: str, sent: str) -> None:
    assert treatment.function()(value.encode()) == sent.encode()


@given(texts)
def test_what_is_encrypted_is_read_with_its_key_alone_and_is_the_same_each_time(
    value: bytes,
) -> None:
    treatment = Treatment("encrypt", "k", KEY)
    sent = treatment.function()(value)
    assert treatment.function()(value) == sent != treatment.function()(value + b"!")
    keys = {"j": "another key of 16", "k": KEY.decode()}
    assert decrypt(sent.decode(), keys).encode() == value
    assert sent.startswith(b"k:")
    odd = (sent[1:], b"j" + sent[1:], sent[:-1], b"k:", b"k", b"", b"k:e\xcc\x81")
    for other in odd:
        with pytest.raises(UsageError, match="was not encrypted with"):
            decrypt(other.decode(), keys)


def test_bytes_that_are_no_characters_are_treated_as_well() -> None:
    for treatment in TREATMENTS:
        assert b"secret" not in treatment.function()(b"\xff\xfesecret")


@pytest.mark.parametrize(
    ("kind", "fingerprint"), [("hash", "861099e973b79c09"), ("encrypt", "7d64aa854d4bfef9")]
)
def test_a_key_is_told_by_name_and_fingerprint(
    kind: Literal["hash", "encrypt"], fingerprint: str
) -> None:
    treatment = Treatment(kind, "2026", KEY)
    assert str(treatment) == f"{kind} 2026 {fingerprint}"
    assert KEY.decode() not in repr(treatment)
    other = Treatment(kind, "2026", KEY[::-1])
    assert str(treatment) != str(other)
    assert treatment.function()(b"a") != other.function()(b"a")


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(TREATMENTS), st.lists(st.none() | texts, min_size=1, max_size=5))
def test_a_column_at_once_is_its_values_one_by_one(
    treatment: Treatment, values: list[bytes | None]
) -> None:
    column = with_treatment(Column("a", DATE, -1, False), treatment)
    one = cell_encoder(column)
    assert one is not None
    present = np.array([value is not None for value in values])
    there = [value for value in values if value is not None]
    cells = Cells(pa.array(there, pa.binary()), None if present.all() else present, None)
    made = column_of_table(column)(cells)
    if made.cells is None:
        found = [made.lead] * len(values)
    else:
        found = joined([made.lead, made.cells, made.trail], len(values)).to_pylist()
    assert found == [b"null" if value is None else one(value) for value in values]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(TREATMENTS), st.lists(st.tuples(texts, st.none() | texts), min_size=1))
def test_lines_of_a_copy_are_treated_in_their_columns_alone(
    treatment: Treatment, rows: list[tuple[bytes, bytes | None]]
) -> None:
    def field(value: bytes | None) -> bytes:
        escaped = (value or b"").replace(b"\\", b"\\\\").replace(b"\t", b"\\t")
        escaped = escaped.replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        return b"\\N" if value is None else escaped

    lines = b"".join(b"\t".join(map(field, row)) + b"\n" for row in rows)
    found = [tuple(row) for row in copied_rows(treated_lines(lines, {1: treatment.function()}), 2)]
    wanted = [(a, None if b is None else treatment.function()(b)) for a, b in rows]
    assert found == wanted
