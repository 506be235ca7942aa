"""Each page over given figures: every state, nothing, sixty views, names as long and as nasty as
names may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.config import Serve
from cdc.errors import RetryableError
from cdc.lag.states import State
from headwater.console.pages import key_parts
from headwater.console.past import Sparks
from headwater.console.picture import headline
from headwater.console.respond import POLICY
from headwater.pipeline.history import FINE_S
from tests.support.console import sample
from tests.support.console.asked import Console, Figures, SharedHere
from tests.support.console.markup import Markup

PATHS = (
    "/", "/status", "/console/source", "/console/topics", "/console/views",
    "/console/views/open_orders", "/console/snapshots", "/console/dead-letters",
    "/console/changes", "/console/changes?table=public.orders", "/console/alarms",
    "/console/trace?table=public.orders&key=17", "/console/audit",
    "/console/act/rebuild?view=open_orders", "/?job=j1",
    "/console/alarms/HW011", "/console/charts", "/console/views/open_orders/charts",
)  # fmt: skip


def read(console: Console, path: str) -> Markup:
    answer = console.get(path)
    assert answer.status == 200, answer.text
    found = Markup(answer.text)
    assert found.problems == []
    return found


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_well_formed_and_runs_nothing_but_files_of_this_server(path: str) -> None:
    answer = Console().get(path)
    assert answer.status == 200
    assert Markup(answer.text).problems == []
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert "://" not in answer.text.replace("http://www.w3.org/", "")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
def test_a_part_is_the_page_without_its_frame(path: str) -> None:
    if path == "/status" or path.endswith("charts"):
        return
    part = Console().part(path)
    assert part.status == 200
    assert Markup(part.text).problems == []
    assert "<html" not in part.text
    assert "<main" in part.text


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_told_by_a_word_and_by_a_shape(state: State) -> None:
    console = Console(Figures(sample.pipeline({"open_orders": state})))
    for path in ("/", "/console/views", "/console/views/open_orders", "/status"):
        answer = console.get(path)
        assert state.value in Markup(answer.text).text
        assert f'href="#m-{state.value.replace(" ", "-")}"' in answer.text
        assert f'id="m-{state.value.replace(" ", "-")}"' in answer.text


def test_alerts_on_rows_are_told_where_somebody_looks_first() -> None:
    found = sample.alerted(sample.pipeline({"open_orders": State.BLOCKED}))
    console = Console(Figures(found))
    for path in ("/", "/status"):
        text = Markup(console.get(path).text).text
        assert "open_orders_risen" in text.replace("\u200b", "")
        assert "no `headwater serve` sends it" in text
        assert "1 alert on rows: open_orders_risen blocked." in text
    without = Console(Figures(sample.well()))
    assert "Alerts on rows" not in without.get("/").text


def test_only_what_is_known_to_be_well_is_green() -> None:
    for state in State:
        answer = Console(Figures(sample.pipeline({"open_orders": state}))).get("/console/views")
        assert ('class="state good"' in answer.text) == (state in (State.IDLE, State.FRESH))


def test_nothing_is_green_while_nothing_is_known() -> None:
    answer = Console(Figures(sample.unknown())).get("/")
    text = Markup(answer.text).text
    assert "does not answer: connection refused" in text
    assert "Nothing can be said of now." in text
    assert "good" not in answer.text


@pytest.mark.parametrize("path", PATHS)
def test_an_empty_deployment_has_every_page(path: str) -> None:
    figures = Figures(sample.pipeline({}))
    figures.letters = replace(figures.letters, letters=(), keys=0)
    figures.shown = replace(figures.shown, snapshots=())
    figures.found_topics = replace(figures.found_topics, topics=())
    if "open_orders" in path:
        return
    assert Markup(Console(figures).get(path).text).problems == []


def test_of_sixty_views_the_worst_are_drawn_and_all_are_listed() -> None:
    console = Console(Figures(sample.many()))
    drawn, listed = read(console, "/").text, read(console, "/console/views").text
    assert "view_07" in drawn
    assert "60 views: 9 catching up, 51 idle." in drawn
    assert all(f"view_{i:02}" in listed for i in range(60))


@pytest.mark.parametrize("name", [sample.NASTY, sample.LONG, "größe 😀", "a/b?c#d"])
def test_names_are_shown_as_they_are_and_run_nothing(name: str) -> None:
    console = Console(Figures(sample.pipeline({name: State.STALLED}, source=name)))
    for path in ("/", "/status", "/console/views"):
        found = read(console, path)
        assert name in found.text
        assert found.tags["script"] == (0 if path == "/status" else 2)


def test_status_needs_neither_script_nor_style() -> None:
    answer = Console().get("/status")
    assert "<script" not in answer.text
    text = Markup(answer.text).text
    for word in (*sample.STATES, *sample.STATES.values(), "HW011", "What to do"):
        assert word in text


def test_status_comes_anew_only_when_that_is_asked_for() -> None:
    assert "refresh" not in Console().get("/status").text.partition("<body>")[0]
    assert 'content="10"' in Console().get("/status?refresh=10").text
    assert 'content="2"' in Console().get("/status?refresh=0001").text
    for text in ("9" * 5_000, "-7", "x"):
        assert "http-equiv" not in Console().get(f"/status?refresh={text}").text


def test_values_that_somebody_may_not_see_are_not_there() -> None:
    text = read(Console(), "/console/dead-letters").text
    assert '{"id": 17}' in text
    assert "whose rows you may not see" in text


def test_nothing_is_said_to_be_well_because_nobody_could_ask() -> None:
    figures = Figures(replace(sample.unknown(), alarms=()))
    away = "the state database is not running"
    figures.letters = replace(figures.letters, letters=(), keys=0, problems=(away,))
    console = Console(figures)
    letters = read(console, "/console/dead-letters").text
    assert away in letters
    assert "how many keys wait is not known" in letters
    assert "Nothing waits" not in letters
    figures.letters = replace(sample.dead_letters(), problems=(away,))
    assert (
        "at least 612 keys wait, others are not known"
        in read(console, "/console/dead-letters").text
    )
    for path in ("/console/alarms", "/console/alarms/HW011"):
        text = read(console, path).text
        assert "not all can be judged: PostgreSQL at 127.0.0.1:5432 does not answer" in text
        assert "No alarm fires." not in text
        assert "It does not fire now." not in text
    figures.found_view = replace(
        sample.view(State.NO_DATA), generations=(), applied=None, problems=(away,)
    )
    figures.found_view = replace(
        figures.found_view, line=replace(figures.found_view.line, verified_at_s=None)
    )
    view = read(console, "/console/views/open_orders").text
    assert "Never" not in view
    assert "Not known: they could not be read." in view
    console.audit.failing = RetryableError("the audit log cannot be read: Permission denied")
    assert console.get("/console/audit").status == 503


def test_what_waits_for_nothing_and_what_fires_not_are_told() -> None:
    figures = Figures(sample.well())
    figures.letters = replace(figures.letters, letters=(), keys=0)
    console = Console(figures)
    assert "Nothing waits: every record was applied." in read(console, "/console/dead-letters").text
    assert "No alarm fires." in read(console, "/console/alarms").text
    assert "It does not fire now." in read(console, "/console/alarms/HW011").text


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"active": True}, "Inactive since active"),
        ({"active": False}, "Inactive since not known"),
        ({"active": False, "inactive_since_s": sample.NOW_S}, "Inactive since 2026-"),
        ({"active": False, "walsender_wait": ""}, "Waits for no WAL sender"),
        ({"active": True, "walsender_wait": ""}, "Waits for nothing"),
        ({"wal_status": "lost", "safe_bytes": None}, "May still be written nothing: it is lost"),
        ({"wal_status": "lost", "loss_s": None}, "Time to loss, at this rate lost"),
        ({"wal_status": "extended", "safe_bytes": None}, "May still be written no limit set"),
        ({"wal_status": None, "safe_bytes": None}, "May still be written not known"),
    ],
)
def test_of_a_slot_no_more_is_said_than_is_known(known: dict[str, Any], said: str) -> None:
    figures = Figures()
    assert figures.found_source.slot is not None
    slot = replace(figures.found_source.slot, **known)
    figures.found_source = replace(figures.found_source, slot=slot)
    assert said in read(Console(figures), "/console/source").text


def test_a_row_is_traced_once_and_not_by_every_open_page() -> None:
    assert "every 3s" in Console().get("/console/changes").text
    assert "every 3s" not in Console().get("/console/trace?table=public.orders&key=17").text
    assert "every 3s" not in Console().get("/console/trace?table=public.orders&key=").text


@pytest.mark.parametrize(
    ("text", "columns", "parts"),
    [
        ("17", ("id",), ["17"]),
        ("id=17", ("id",), ["id=17"]),
        ("bG91ZA==", ("id",), ["bG91ZA=="]),
        ("a b=c d", ("id",), ["a b=c d"]),
        ("id=a b id=c", ("id",), ["id=a b id=c"]),
        ("a=1 b=2", ("a", "b"), ["a=1", "b=2"]),
        ("b=two words  a=x=y", ("a", "b"), ["b=two words", "a=x=y"]),
        ("a=1", ("a", "b"), ["a=1"]),
        ('{"a": "x b=1", "b": 2}', ("a", "b"), ['{"a": "x b=1", "b": 2}']),
        ("x=1", (), ["x=1"]),
    ],
)
def test_a_key_is_split_where_its_columns_are_named(
    text: str, columns: tuple[str, ...], parts: list[str]
) -> None:
    assert key_parts(text, columns) == parts


def test_the_last_hour_of_all_views_is_drawn_once_a_step() -> None:
    now_s = 1_000.0
    shared: Any = SharedHere(Serve(), Figures(sample.many()))
    drawn = Sparks(shared, lambda: now_s)
    first = drawn.paths()
    assert len(first) == 60
    now_s += FINE_S - 1
    assert drawn.paths() is first
    assert shared.memory.asked == [(FINE_S, "lag_s")]
    now_s += 1
    assert drawn.paths() == first
    assert len(shared.memory.asked) == 2


def test_a_server_that_is_away_is_told_where_the_page_would_be() -> None:
    figures = Figures()
    figures.failing = RetryableError("Kafka at 127.0.0.1:9092 does not answer", "start Kafka")
    answer = Console(figures).get("/console/topics")
    assert answer.status == 503
    assert "Kafka at 127.0.0.1:9092 does not answer. Start Kafka." in Markup(answer.text).text
    assert 'aria-current="page"' in answer.text


def test_what_is_not_there_is_told_as_a_page() -> None:
    assert "known: HW001" in Console().get("/console/alarms/HW999").text.lower().replace("hw", "HW")


def test_of_findings_what_is_wrong_comes_first() -> None:
    text = read(Console(), "/console/source").text
    assert text.index("Rebuild the view.") < text.index("Set it, so that") < text.index("ok source")


def test_a_row_is_traced_to_each_view_that_reads_its_table() -> None:
    console = Console()
    text = read(console, "/console/trace?table=public.orders&key=17").text
    assert "Row 17 of public.orders" in text
    assert "open_orders search yes as of 0/3A2F1B8" in text
    assert "stock search not yet not checked dead letters" in text
    assert console.get("/console/trace?table=public.orders&key=").status == 400


def test_a_feed_is_of_a_table_that_may_be_seen() -> None:
    console = Console()
    assert "/changes/public.orders?snapshot=false" in console.get(
        "/console/changes?table=public.orders"
    ).text  # fmt: skip
    refused = read(console, "/console/changes?table=public.secrets").text
    assert "public.secrets is not captured, or you may not see its rows." in refused


@pytest.mark.parametrize(
    ("code", "tone"), [("HW010", "warn"), ("HW015", "bad"), ("", "bad"), ("HW011", "bad")]
)
def test_what_is_to_be_done_has_the_colour_of_its_alarm(code: str, tone: str) -> None:
    found = replace(sample.well(), advice=(sample.advice(code),))
    assert headline(found) == (tone, "1 thing to do. 3 views keep up.")
    assert f'<li class="note {tone}">' in Console(Figures(found)).get("/status").text
    assert headline(replace(found, views=found.views[:1])).text.endswith(" 1 view keeps up.")


def test_views_that_are_late_are_counted_by_their_state() -> None:
    found = sample.pipeline({"a": State.IDLE, "b": State.CATCHING_UP})
    assert headline(found) == ("warn", "2 views: 1 catching up, 1 idle.")


def test_the_plain_page_offers_to_reload() -> None:
    assert "Reload every 10 s" in Console().get("/status").text
    assert "This page reloads every 10 s" in Console().get("/status?refresh=10").text
