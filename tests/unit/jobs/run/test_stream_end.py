"""Why a stream ended: what will pass by itself, and what only a person can mend."""

from __future__ import annotations

import pytest

from cdc.errors import RetryableError, SourceError
from cdc.source.copy_both import Refusal
from cdc.source.replication import ReplicationStream

AT = 'slot "s", output plugin "pgoutput", in the change callback, associated LSN 0/16B3748'


def ended(refusal: Refusal | None) -> Exception:
    stream = ReplicationStream.__new__(ReplicationStream)
    stream._place, stream._slot = "app@db:5432/shop", "headwater_shop"
    return stream._over(refusal)


@pytest.mark.parametrize("state", ["22021", "22P05", "22012"])
def test_a_change_that_cannot_be_sent_names_slot_lsn_and_way_out(state: str) -> None:
    error = ended(Refusal(state, "ERROR", "invalid byte sequence", AT))
    assert isinstance(error, SourceError)
    for part in ("LSN 0/16B3748", "slot headwater_shop", "invalid byte sequence", state):
        assert part in error.message
    assert "headwater init --again" in error.hint


def test_what_passes_by_itself_is_tried_again() -> None:
    for refusal in (None, Refusal("57P01", "FATAL", "terminating connection", "")):
        assert isinstance(ended(refusal), RetryableError)
