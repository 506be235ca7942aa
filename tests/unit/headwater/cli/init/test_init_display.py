"""What `init` shows when it is done."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from headwater.cli.init.command import show
from headwater.cli.init.steps import Outcome


@pytest.mark.parametrize(
    ("created", "title", "last"),
    [(True, "set up", "next: headwater capture"), (False, "already set up", "")],
)
def test_what_is_set_up_is_listed_whether_or_not_it_was_there_before(
    created: bool, title: str, last: str
) -> None:
    stream = StringIO()
    outcome = Outcome(created, "hw_shop", "hw_pub", 7, ["shop.public.t"], {"public.t": 1_000}, {})
    show(outcome, Console(file=stream, width=100))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines[0] == title
    assert any("rows read" in line and "public.t" in line and "1,000" in line for line in lines)
    assert not any("created" in line for line in lines)
    assert last in lines[-1]
