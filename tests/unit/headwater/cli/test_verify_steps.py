"""What `verify` tells of its waiting to who reads no terminal."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cdc.config import parse_config
from cdc.errors import HeadwaterError
from headwater.cli.verify.command import refuse_store_away
from headwater.cli.verify.steps import Steps
from verification.late_view_errors import watched
from verification.view_positions import Lacking, StoppedError


class Facts:
    def __init__(self, applied: bool | None, fault: str = "") -> None:
        self._applied, self._fault = applied, fault

    def applied(self, view: str) -> bool | None:
        assert view == "v"
        return self._applied

    def refuse_stopped(self, view: str, lacking: Lacking) -> None:
        if self._fault:
            raise StoppedError(f"view {view}: {self._fault}", "mend it", lacking)


def test_what_lasts_is_told_each_two_seconds() -> None:
    now, stream = [0.0], StringIO()
    steps = Steps(Console(file=stream, width=200), "v", lambda: now[0])
    for at, what in ((0.1, "a"), (1.9, "b"), (2.0, "waiting for view v"), (3.9, "c"), (4.0, "d")):
        now[0] = at
        steps.update(what)
    assert stream.getvalue().splitlines() == ["waiting for view v", "v: d"]


@pytest.mark.parametrize(
    ("applied", "told"),
    [
        (True, []),
        (False, ["view v is not being applied; waiting for `headwater apply`"]),
        (None, ["view v has not been applied on this machine; waiting for `headwater apply`"]),
    ],
)
def test_a_view_that_nobody_applies_is_told_at_once_and_once(
    applied: bool | None, told: list[str]
) -> None:
    found = list[str]()
    on_lacking = watched(Facts(applied), "v", found.append)
    for _ in range(3):
        on_lacking({})
    assert found == told


def test_one_that_has_stopped_is_not_waited_for() -> None:
    with pytest.raises(StoppedError, match="full"):
        watched(Facts(False, "full"), "v", print)({})


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "http://127.0.0.1:1"])
def test_a_store_that_is_away_is_why_a_view_is_late(url: str) -> None:
    kind = url.partition(":")[0].replace("http", "opensearch")
    document = {
        "source": {"name": "shop", "dsn": "postgresql://localhost/shop", "tables": ["public.t"]},
        "kafka": {"bootstrap_servers": "localhost:9092"},
        "stores": {"store": {"kind": kind, "url": url}},
        "views": {"v": {"store": "store", "key": ["id"], "sql": "select id from t"}},
    }
    with pytest.raises(HeadwaterError, match=r"127\.0\.0\.1:1"):
        refuse_store_away(parse_config(document, {}, base=Path()), "v")
