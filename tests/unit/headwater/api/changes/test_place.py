"""Ids of events: each place has one text, and no other text is a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.api.changes.place import LogPlace, PlaceError, SnapshotPlace, parse_place

DIGEST = st.text("0123456789abcdef", min_size=8, max_size=8)
NUMBER = st.integers(0, (1 << 63) - 1)
PLACES = st.one_of(
    st.builds(SnapshotPlace, DIGEST, st.text("0123456789abcdef", min_size=16, max_size=16), NUMBER),
    st.builds(
        LogPlace,
        DIGEST,
        st.text("abcXYZ019-_", min_size=1, max_size=36),
        st.integers(0, (1 << 64) - 1),
        st.lists(NUMBER, min_size=1, max_size=9).map(tuple),
    ),
)


@given(PLACES)
def test_the_text_of_a_place_is_parsed_to_it(place: SnapshotPlace | LogPlace) -> None:
    assert parse_place(place.text()) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "l1",
        "l1.00000000.t.0",
        "l1.00000000.t.0.",
        "l1.00000000.t.0.-1",
        "l1.00000000.t.0.01",
        "l1.00000000.t.0.1--2",
        "l1.00000000.t.0.zzzzzzzzzzzzz",
        "l2.00000000.t.0.1",
        "s1.00000000.0123456789abcdef.-1",
        "s1.00000000.0123456789ABCDEF.1",
        "s1.00000000.../../etc/passwd.1",
        "l1.00000000.t.0.1\nevent: x",
        "l1.00000000.t.0." + "1-" * 20_000 + "1",
        "l1.0000000٣.t.0.1",
        "<script>",
    ],
)
def test_what_no_server_wrote_is_refused(text: str) -> None:
    with pytest.raises(PlaceError):
        parse_place(text)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_is_the_text_of_a_place(text: str) -> None:
    try:
        place = parse_place(text)
    except PlaceError:
        return
    if isinstance(place, SnapshotPlace):
        assert place.text() == text
