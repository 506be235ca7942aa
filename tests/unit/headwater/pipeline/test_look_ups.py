"""What is asked beside lag, where the configuration has changed since the server started."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import Alerts, Config, RowAlert, load_config
from headwater.check.finding import Finding
from headwater.cli.dead_letters.entry import Entry
from headwater.pipeline import look_ups
from headwater.pipeline.pages import Check

_VIEW = '[views.{}]\nstore = "cache"\nkey = ["id"]\nsql = "select id from t"\n'


def config(path: Path, *views: str) -> Config:
    path.write_text(
        '[source]\nname = "s"\ndsn = "postgresql://127.0.0.1/s"\ntables = ["public.t"]\n'
        '[kafka]\nbootstrap_servers = "127.0.0.1:9"\n'
        '[stores.cache]\nkind = "redis"\nurl = "redis://127.0.0.1:9/0"\n'
        + "".join(map(_VIEW.format, views))
    )
    return load_config(path)


def test_checks_are_of_the_configuration_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rows of a view that was declared since look as if nobody declared it."""
    path = tmp_path / "headwater.toml"
    asked: list[Config] = []

    def preflight(given: Config, _: object) -> list[Finding]:
        asked.append(given)
        return [Finding("ok", "source", "fine", "")]

    monkeypatch.setattr(look_ups, "preflight", preflight)
    at_start = config(path, "a", "gone")
    now = config(path, "a", "recent")
    assert look_ups.checks(at_start, lambda: load_config(path)) == (
        Check("ok", "source", "fine", ""),
        Check(
            "warning",
            "headwater serve",
            "its views are those of its start; declared or removed since: gone, recent",
            "restart `headwater serve`",
        ),
    )
    assert asked == [now]
    assert len(look_ups.checks(now, lambda: now)) == 1


def test_alerts_on_rows_that_this_server_does_not_send_as_declared_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an alert looks fine that nobody runs."""
    monkeypatch.setattr(look_ups, "preflight", lambda *_: [])
    base = config(tmp_path / "headwater.toml", "a")

    def declared(secret: str = "secret", **conditions: str) -> Config:
        rows = {
            name: RowAlert(table="public.t", when=when, webhook="http://127.0.0.1:9")
            for name, when in conditions.items()
        }
        alerts = Alerts(secret_file=secret, rows=rows)
        return base.model_copy(update={"alerts": alerts})

    at_start = declared(same="after.id = 1", other="after.id = 1", gone="after.id = 1")
    now = declared(same="after.id = 1", other="after.id = 2", recent="after.id = 1")
    (found,) = look_ups.checks(at_start, lambda: now)
    assert (found.level, found.check) == ("warning", "headwater serve")
    assert found.message == (
        "it sends alerts on rows as at its start; changed since: gone, other, recent"
    )
    assert look_ups.checks(now, lambda: now) == ()
    (found,) = look_ups.checks(
        declared(same="after.id = 1"), lambda: declared("elsewhere", same="after.id = 1")
    )
    assert found.message.endswith("changed since: same")


def test_a_configuration_that_is_wrong_now_is_told(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    at_start = config(path, "a")
    path.write_text("[source")
    (found,) = look_ups.checks(at_start, lambda: load_config(path))
    assert (found.level, found.check) == ("error", "configuration")
    assert "headwater.toml" in found.message


def test_a_dead_letter_of_a_topic_of_several_tables_may_be_of_each(tmp_path: Path) -> None:
    """Who may see rows of one of them is not told its cause, which may quote a row of another."""
    found = [
        Entry(f"{topic}{table}", "", topic, None, "cause", datetime.now(UTC), table=table)
        for topic, table in (("all", ""), ("own", ""), ("all", "public.b"), ("unknown", ""))
    ]
    of_capture = cast(Any, SimpleNamespace(entries=lambda _: found))
    tables = {"all": ["public.a", "public.b"], "own": ["public.c"]}
    _, letters, problems = look_ups.dead_letters(
        config(tmp_path / "headwater.toml"), tables, of_capture
    )
    assert sorted(one.tables for one in letters) == [
        ("",), ("public.a", "public.b"), ("public.b",), ("public.c",)
    ]  # fmt: skip
    assert not problems
