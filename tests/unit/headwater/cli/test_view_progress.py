"""What is seen of a view's build while it runs, and of a rollback."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from bootstrap.process import RolledBack
from headwater.cli.view.display import gone_back
from headwater.cli.view.progress import Progress

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _said(terminal: bool, *, done: bool) -> str:
    output = StringIO()
    progress = Progress(Console(file=output, force_terminal=terminal, width=100))
    progress.step("orders", "snapshot 2 of shop.public.orders")
    progress.reading("orders", 540_000, 1_000_000)
    if done:
        progress.done("orders")
    progress.step("items", "loading 1,000 rows into lake")
    progress.close()
    return _CONTROL.sub("", output.getvalue())


def test_a_log_gets_one_line_for_each_step_and_no_bars() -> None:
    assert _said(False, done=True).splitlines() == [
        "orders: snapshot 2 of shop.public.orders",
        "items: loading 1,000 rows into lake",
    ]


@pytest.mark.parametrize("done", [True, False])
def test_a_terminal_has_a_bar_for_what_is_at_work(done: bool) -> None:
    said = _said(True, done=done)
    assert re.search(r"items +━", said), "a step that cannot be counted, too"
    assert ("54% 540,000 rows" in said) == (not done), "nothing is left of a view that is done"


def test_a_rollback_says_what_is_live_how_old_it_is_and_who_goes_on() -> None:
    done = RolledBack(1, 2, 1_700_000_000.0, "", applied=False)
    assert gone_back("orders", done, 1_700_000_500.0) == (
        "orders: generation 1 is live again, instead of 2, with its rows of 2023-11-14 22:13 UTC"
        " (8 min ago); no process applies it: `headwater apply orders` brings it up to date"
    )
    said = gone_back("orders", done._replace(applied=True), 1_700_000_500.0)
    assert said.endswith("; the `headwater apply` that runs brings it up to date")
