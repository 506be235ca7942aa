"""``headwater dead-letters`` as it is called, over what the log and the state database have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headwater.alerts.letters import Letter
from headwater.cli.app import app
from headwater.cli.common import confirmation
from headwater.cli.dead_letters import (
    capture,
    command,
    database_views,
    row_alerts,
    topic_views,
)
from headwater.cli.dead_letters.entry import Entry, Settled
from tests.unit.headwater.cli.test_dead_letters_display import LARGE, OF_DATABASE, OF_VIEW, POSITION

CONFIG = """
[source]
name = "shop"
dsn = "postgresql://localhost/shop"
tables = ["public.t"]
[kafka]
bootstrap_servers = "localhost:9092"
[stores.cache]
kind = "redis"
url = "redis://localhost"
[views.v]
store = "cache"
key = ["id"]
sql = "select id from t"
[views.w]
store = "cache"
key = ["id"]
sql = "select id from t"
"""


class Shop:
    """View ``v`` is kept by Spark, ``w`` by the state database."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.file = folder / "headwater.toml"
        self.file.write_text(CONFIG)
        self.settled: list[tuple[Any, ...]] = []
        self.done = Settled(1, 1)
        large = [capture.told(LARGE, number) for number in (1, 2)]
        of = {"v": OF_VIEW, "w": [OF_DATABASE]}
        patched.setattr(command, "kept_by_state", lambda _, views: views == ["w"])
        patched.setattr(topic_views, "entries", lambda _, view, **_values: of[view])
        patched.setattr(database_views, "entries", lambda _, views: {v: of[v] for v in views})
        patched.setattr(capture, "_numbered", lambda _: iter(large))
        patched.setattr(row_alerts, "_open", lambda *_: [])
        for module in (topic_views, database_views):
            patched.setattr(module, "settle", self._settle)

    def _settle(self, _: Any, kind: str, view: str, wanted: Sequence[Entry] | None) -> Settled:
        self.settled.append((kind, view, wanted))
        return self.done

    def run(self, *arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(app, ["--config", str(self.file), "dead-letters", *arguments])
        assert done.exit_code == code, done.output
        return done


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def test_a_list_has_views_of_both_engines_and_capture(shop: Shop) -> None:
    listed = json.loads(shop.run("list", "--json").stdout)
    assert [one["id"] for one in listed] == [
        *(one.id for one in (*OF_VIEW, OF_DATABASE)), POSITION, f"{POSITION}-2",
    ]  # fmt: skip
    assert [one["view"] for one in json.loads(shop.run("list", "w", "--json").stdout)] == ["w"]
    shown = shop.run("list").stdout
    assert "1 more of its key" in shown
    assert OF_VIEW[1].id not in shown
    assert OF_VIEW[1].id in shop.run("list", "--events").stdout


def test_each_is_shown_by_its_id(shop: Shop) -> None:
    for id_ in (OF_VIEW[1].id, OF_VIEW[3].id, OF_DATABASE.id, POSITION, f"{POSITION}-2"):
        assert json.loads(shop.run("show", id_, "--json").stdout)["id"] == id_
    assert shop.run("show", OF_VIEW[0].id).stdout == "secret"
    for id_ in ("shop.public.t-0-99", f"{POSITION}-3"):
        assert f"there is no dead letter {id_}" in str(shop.run("show", id_, code=1).exception)


@pytest.mark.parametrize("is_one_cause", [True, False])
def test_an_event_that_waits_in_several_views_is_asked_of_one_for_its_cause(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, is_one_cause: bool
) -> None:
    causes = {"v": OF_VIEW[0].cause, "w": OF_VIEW[0].cause if is_one_cause else "refused"}
    twice = {view: [OF_VIEW[0]._replace(view=view, cause=causes[view])] for view in ("v", "w")}
    monkeypatch.setattr(topic_views, "entries", lambda _, view, **_values: twice[view])
    monkeypatch.setattr(database_views, "entries", lambda _, views: {v: twice[v] for v in views})
    monkeypatch.setattr(database_views, "with_record", lambda _, one: one)
    if is_one_cause:
        told = json.loads(shop.run("show", OF_VIEW[0].id, "--json").stdout)
        assert (told["view"], told["also_of"]) == ("v", ["w"])
        assert "also of" in shop.run("show", OF_VIEW[0].id).output
    else:
        refused = str(shop.run("show", OF_VIEW[0].id, code=1).exception)
        assert "views: v, w. Add --view v" in refused
    for view in ("v", "w"):
        assert shop.run("show", OF_VIEW[0].id, "--view", view).stdout == "secret"


def test_keys_are_retried_all_or_some(shop: Shop) -> None:
    assert "v: 1 event of 1 key applied" in shop.run("retry", "v").stdout
    shop.run("retry", "w", "--key", "id=7", "--json")
    assert shop.settled == [("retry", "v", None), ("retry", "w", [OF_DATABASE])]
    shop.done = Settled(0, 0, [{"key": '{"id":1}', "cause": "too much"}])
    assert "v: id=1 stays parked: too much" in shop.run("retry", "v", code=1).stdout


def test_what_is_discarded_is_named_and_the_way_back_told(shop: Shop) -> None:
    shop.run("discard", "w", code=1)
    shop.run("discard", "w", "--all", "--key", "id=7", code=1)
    shop.run("discard", "w", "--all", code=1)  # nobody can be asked
    assert shop.settled == []
    done = shop.run("discard", "w", "--all", "--yes")
    assert "w: 1 event of 1 key discarded" in done.output
    assert "`headwater verify w --repair` corrects them now" in " ".join(done.output.split())


def test_on_a_terminal_all_are_discarded_when_that_is_confirmed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirmation, "on_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    shop.run("discard", "w", "--all", code=1)
    assert shop.settled == []
    shop.run("discard", "w", "--all", "--yes")
    assert shop.settled == [("discard", "w", None)]


def test_a_record_of_a_mirror_is_discarded_for_all_views_of_its_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = OF_DATABASE._replace(of="shop.public.t", values=(), table="public.t")
    monkeypatch.setattr(database_views, "entries", lambda _, views: {views[0]: [letter]})
    said = " ".join(shop.run("discard", "w", "--all", "--yes").output.split())
    assert "w: the mirror of public.t lacks them, so they are discarded for v, too" in said
    assert "discarded for" not in shop.run("retry", "w").output


def test_where_nothing_waits_nothing_is_done(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_views, "entries", lambda *_: [])
    assert "v: no dead letters" in shop.run("retry", "v", "--key", "id=1").output
    said = json.loads(shop.run("discard", "v", "--all", "--yes", "--json").stdout)
    assert said == {"view": "v", "events": 0, "keys": 0, "left": []}
    assert shop.settled == []


def test_messages_of_an_alert_are_listed_shown_and_settled_by_its_name(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [
        Letter("big", f"msg_{at}", '{"id":7}', f"shop.public.t-0-{at}", "answered 410", b'{"a":1}')
        for at in (1, 2)
    ]
    monkeypatch.setattr(row_alerts, "_open", lambda *_: letters)
    monkeypatch.setattr(row_alerts, "settle", shop._settle)
    of_all = json.loads(shop.run("list", "--json").stdout)
    assert [one["id"] for one in of_all][-2:] == ["msg_1", "msg_2"], "none is declared any more"
    listed = json.loads(shop.run("list", "alerts.big", "--json").stdout)
    assert [(one["id"], one["view"], one["offset"]) for one in listed] == [
        ("msg_1", "alerts.big", 1), ("msg_2", "alerts.big", 2),
    ]  # fmt: skip
    shown = json.loads(shop.run("show", "msg_2", "--json").stdout)
    assert (shown["cause"], shown["value"]) == ("answered 410", {"a": 1})
    shop.run("show", "msg_9", code=1)
    assert "1 event of 1 key delivered" in shop.run("retry", "alerts.big", "--key", "id=7").stdout
    shop.run("discard", "alerts.big", "--all", "--yes")
    (retry, discard) = shop.settled
    assert (retry[0], retry[1], [one.id for one in retry[2]]) == (
        "retry", "alerts.big", ["msg_1", "msg_2"]
    )  # fmt: skip
    assert discard == ("discard", "alerts.big", None)
