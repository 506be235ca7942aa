"""Snapshot rows by column are what one row after the other gives: the same keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc.columnar import snapshot
from cdc.columnar.snapshot import SNAPSHOT_MARKERS, SnapshotEncoder
from cdc.errors import ProtocolError
from cdc.events.envelope import ChangeEncoder, SourceContext, Transaction, clock
from cdc.events.form import OURS, Form
from cdc.protocol.messages import Values
from cdc.protocol.relation import Relation
from tests.support.events.copy_text import copy_line
from tests.support.events.forms import forms
from tests.support.events.random_frames import TABLES, TYPES, kinds_of, relation
from tests.unit.cdc.columnar.test_columnar import CONTEXT, NOW_US

LSN = 0x1_0000_0050


def one_by_one(
    shape: Relation,
    rows: Sequence[Values],
    marker: str = "true",
    context: SourceContext = CONTEXT,
) -> tuple[list[bytes | None], list[bytes]]:
    """As the stream forms its events."""
    events = ChangeEncoder(shape, context)
    events.begin(Transaction(LSN, NOW_US, None, None), marker)
    values = [
        events.value(
            b"null",
            events.rows.row(row),
            b'"r"',
            LSN,
            0,
            clock(NOW_US),
            relaxed=events.is_relaxed(None, row),
        )
        for row in rows
    ]
    return [events.rows.key(row) for row in rows], values


def by_column(
    shape: Relation, rows: Sequence[Values], context: SourceContext = CONTEXT
) -> tuple[list[bytes | None], list[bytes]]:
    encoder = SnapshotEncoder(shape, context, LSN, NOW_US)
    keys, values = encoder.encode(b"".join(map(copy_line, rows)), len(rows))
    return list(keys), values


@st.composite
def tables(draw: st.DrawFn) -> tuple[Relation, list[Values]]:
    """A table of some types, with a key of one column, of two or none, and rows of it."""
    oid = draw(st.sampled_from(sorted(TABLES)))
    types = draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=5))
    key = len(TABLES[oid][2])
    cells = [
        st.sampled_from(TYPES[kind][2] if i < key else [*TYPES[kind][2], None])
        for i, kind in enumerate(kinds_of(oid, types))
    ]
    rows = draw(st.lists(st.tuples(*cells).map(list), min_size=1, max_size=20))
    return relation(oid, types), rows


@settings(max_examples=300, deadline=None)
@given(tables(), st.just(OURS) | forms())
def test_rows_by_column_are_the_rows_one_by_one(
    table: tuple[Relation, list[Values]], form: Form
) -> None:
    shape, rows = table
    context = replace(CONTEXT, form=form)
    assert by_column(shape, rows, context) == one_by_one(shape, rows, context=context)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.none() | st.binary(max_size=12), min_size=2, max_size=2), min_size=1))
@example([[b"\xed\xa0\x80", b""]])
@example([[b"\xc3", b"\xa9"]])
@example([[b"\t\n\\", b"\\N"], [None, b"\\\\"]])
def test_any_bytes_of_text_are_encoded_or_refused_alike(rows: list[Values]) -> None:
    shape = relation(3, ["text", "jsonb"])
    made: list[object] = []
    for encode in (one_by_one, by_column):
        try:
            made.append(encode(shape, rows))
        except ProtocolError:
            made.append(None)
    assert made[0] == made[1]


def test_a_wide_table_and_a_long_value_are_no_other_case() -> None:
    shape = relation(1, ["text"] * 1600)
    rows: list[Values] = [
        [b"%d" % i, *[b"%d" % k for k in range(1599)], b"\\" * 100_000] for i in range(3)
    ]
    assert by_column(shape, rows) == one_by_one(shape, rows)


@pytest.mark.parametrize("marker", SNAPSHOT_MARKERS)
def test_a_row_is_marked_after_it_was_formed(marker: str) -> None:
    shape = relation(1, ["text"])
    rows: list[Values] = [[b"1", b'"snapshot":"true"']]
    encoder = SnapshotEncoder(shape, CONTEXT, LSN, NOW_US)
    _, (value,) = encoder.encode(copy_line(rows[0]), 1)
    assert encoder.marked(value, marker) == one_by_one(shape, rows, marker)[1][0]


@settings(max_examples=100, deadline=None)
@given(tables())
@example((relation(1, ["text"]), [[b"1", b"\\\t\n\r\b\f\v\\N"], [b"2", None]]))
def test_a_row_too_large_for_arrow_is_no_other_row(table: tuple[Relation, list[Values]]) -> None:
    shape, rows = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "MOST_BYTES", 0)
        assert by_column(shape, rows) == one_by_one(shape, rows)


def test_a_large_row_of_another_width_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_BYTES", 0)
    with pytest.raises(ProtocolError, match="3 fields in a row of 2 columns"):
        by_column(relation(1, ["text"]), [[b"1", b"2", b"3"]])
