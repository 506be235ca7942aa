"""How a fault reads: a message that is a clause, and a hint that is a sentence."""

from __future__ import annotations

import pytest

from cdc.errors import HeadwaterError, SourceError, sentence, two_lines


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("run `headwater init`", "Run `headwater init`."),
        ("Run `headwater init`.", "Run `headwater init`."),
        ("wait: it is tried again", "Wait: it is tried again."),
        ("did you mean orders?", "Did you mean orders?"),
        ("`headwater apply` starts it", "`headwater apply` starts it."),
        ("source.slot names another", "source.slot names another."),
        ("max_wal_senders has to be raised", "max_wal_senders has to be raised."),
        ("GRANT SELECT ON a TO b", "GRANT SELECT ON a TO b"),
        ("let the owner run: ALTER TABLE a;", "Let the owner run: ALTER TABLE a;"),
        ("", ""),
    ],
)
def test_a_hint_is_a_sentence(hint: str, told: str) -> None:
    assert sentence(hint) == HeadwaterError("x", hint).hint == told


def test_a_fault_is_two_sentences_or_two_lines() -> None:
    fault = SourceError("slot x is gone", "run `headwater init --again`")
    assert str(fault) == "slot x is gone. Run `headwater init --again`."
    told = two_lines(fault.message, fault.hint)
    assert told == "slot x is gone\n  hint: Run `headwater init --again`."
    assert str(SourceError("slot x is gone")) == two_lines("slot x is gone", "") == "slot x is gone"
    assert str(SourceError("it ended\n  its log", "start it")) == (
        "it ended\n  its log\n  hint: Start it."
    )
