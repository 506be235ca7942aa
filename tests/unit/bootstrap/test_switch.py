"""When a generation is close enough to the end of its stream to be shown."""

from __future__ import annotations

import pytest

from bootstrap.switch import is_close


@pytest.mark.parametrize(
    ("rounds", "close"),
    [
        ([40.0, 1.9], True),
        ([40.0, 12.0], False),
        ([12.0, 12.0], False),
        ([40.0, 14.0, 8.0], False),
        ([40.0, 10.0, 9.0], True),
        ([40.0, 9.0, 10.0], True),
        ([40.0, 38.0, 37.0], False),
    ],
    ids=[
        "the last took a moment",
        "it may become shorter",
        "two are no trend",
        "it becomes shorter",
        "a batch takes so long here",
        "a batch takes so long here, about",
        "what would be waited for is too long",
    ],
)
def test_a_stream_is_close_when_a_round_is_short_or_as_short_as_it_gets(
    rounds: list[float], close: bool
) -> None:
    assert is_close(rounds) is close
