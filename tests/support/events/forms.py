"""Any form of events."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from cdc.events.codes import PLACEHOLDER
from cdc.events.form import DEBEZIUM, Binaries, Decimals, Form, Hstores, Intervals, Times


def forms() -> st.SearchStrategy[Form]:
    """Every combination of modes, the preset more often than others."""
    any_form = st.builds(
        Form,
        schemas=st.booleans(),
        times=st.sampled_from(get_args(Times)),
        decimals=st.sampled_from(get_args(Decimals)),
        binaries=st.sampled_from(get_args(Binaries)),
        intervals=st.sampled_from(get_args(Intervals)),
        hstores=st.sampled_from(get_args(Hstores)),
        placeholder=st.sampled_from([PLACEHOLDER, '"gone" 100%b', "é"]),
        skipped=st.sampled_from([frozenset(), frozenset("t"), frozenset("cu")]),
        tombstones=st.booleans(),
    )
    return st.just(DEBEZIUM) | any_form
