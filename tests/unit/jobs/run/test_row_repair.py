"""What a command on rows says of a view that is not kept now."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc.config import View
from cdc.errors import HeadwaterError, RetryableError, ViewError
from jobs.run.commands.row_repair import retry
from jobs.run.commands.work import Work
from jobs.run.views.view_entry import ViewEntry
from jobs.state.views.commands import Command

NOTHING = cast("Any", None)
STOPPED = ViewError("view v: the store holds n as bigint", "run `headwater view rebuild v`")


@pytest.mark.parametrize(
    ("seen", "error", "said"),
    [
        (1, STOPPED, r"view v has stopped: the store holds n as bigint\. Run .*view rebuild v"),
        (None, STOPPED, r"view v has stopped: the store holds n as bigint"),
        (1, None, "view v is just being opened"),
        (None, None, r"no live generation yet\. Run `headwater view create v`"),
    ],
)
def test_a_retry_says_why_nothing_is_live(
    seen: int | None, error: HeadwaterError | None, said: str
) -> None:
    entry = ViewEntry("v", cast("View", None), seen=seen, error=error)
    work = Work(Command("retry", "v", {}), NOTHING, NOTHING, entry, NOTHING)
    with pytest.raises((ViewError, RetryableError), match=said):
        retry(work)
