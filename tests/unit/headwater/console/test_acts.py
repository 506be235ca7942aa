"""Forms that act: what they begin, what they refuse and where they say so."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest

from cdc.config import Serve
from headwater.api.access.passwords import hashed_password
from headwater.api.access.principal import Role
from headwater.api.access.users import write_account
from headwater.api.problems import ProblemError
from headwater.console.acting import with_job
from headwater.console.acts import ACTS, command_of
from tests.support.console import sample
from tests.support.console.asked import Console
from tests.support.console.markup import Markup

PASSWORD = "a long password"
HASHED = hashed_password(PASSWORD)


def visitor(home: Path, role: Role, tables: tuple[str, ...] = ()) -> Console:
    users = home / "users.toml"
    write_account(users, "users", "alice", HASHED, role, tables)
    made = Console(serve=Serve(users=str(users)))
    made.post("/console/login", user="alice", password=PASSWORD)
    return made


@pytest.mark.parametrize(
    ("name", "form", "arguments"),
    [
        ("rebuild", {"view": "v", "hold": "on"},
         "view rebuild --json --hold -- v"),
        ("diff", {"view": "v"}, "view diff --json --keys=0 --timeout=300 -- v"),
        ("rollback", {"view": "v", "to": "3"}, "view rollback --to=3 -- v"),
        ("rollback", {"view": "v", "to": ""}, "view rollback -- v"),
        ("replay", {"view": "v", "place": "--oops"}, "replay --json --from=--oops -- v"),
        ("snapshot-start", {"tables": "public.a public.b", "rate": "5MB/s"},
         "snapshot start --json --rate=5MB/s -- public.a public.b"),
        ("snapshot-pause", {"number": "7"}, "snapshot pause 7"),
        ("snapshot-resume", {"number": "7"}, "snapshot resume --json 7"),
        ("snapshot-cancel", {"number": "7"}, "snapshot cancel 7"),
        ("retry", {"view": "v"}, "dead-letters retry --json -- v"),
        ("retry", {"view": "v", "key": "17"}, "dead-letters retry --json --key=17 -- v"),
        ("discard", {"view": "v", "reason": "a duplicate"},
         "dead-letters discard --json --all --yes -- v"),
    ],
)  # fmt: skip
def test_a_form_is_a_command(name: str, form: dict[str, str], arguments: str) -> None:
    assert " ".join(command_of(ACTS[name], form).arguments) == arguments


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("discard", {"view": "v", "reason": " "}, "lacks reason"),
        ("replay", {"view": "v"}, "lacks from"),
        ("rebuild", {}, "lacks view"),
        ("rollback", {"view": "v", "to": "three"}, "is no number"),
        ("snapshot-pause", {"number": "9" * 30}, "is no number"),
        ("snapshot-start", {"tables": " "}, "needs tables or views"),
        ("retry", {"view": "v", "key": "x" * 3_000}, "at most 2,000"),
        ("retry", {"view": "v", "key": "a\0b"}, "at most 2,000"),
    ],
)
def test_a_form_that_lacks_something_is_no_command(
    name: str, form: dict[str, str], said: str
) -> None:
    with pytest.raises(ProblemError, match=said):
        command_of(ACTS[name], form)


@pytest.mark.parametrize("name", ACTS)
def test_each_form_says_what_it_does_and_is_well_formed(name: str) -> None:
    for query in ("", "?view=open_orders&number=7&key=17"):
        answer = Console().get(f"/console/act/{name}{query}")
        assert answer.status == 200
        found = Markup(answer.text)
        assert found.problems == []
        assert ACTS[name].says in found.text


def test_an_operator_begins_it_and_is_led_back_to_a_page_that_tells_of_it(tmp_path: Path) -> None:
    console = visitor(tmp_path, Role.OPERATOR)
    back = "/console/views/open_orders?x=1"
    sent = console.post("/console/do/rebuild", view="open_orders", back=back)
    assert sent.status == 303
    assert sent.headers["location"] == "/console/views/open_orders?x=1&job=j1"
    assert [one.action for one in console.jobs.begun] == ["view rebuild"]
    text = Markup(console.get(sent.headers["location"]).text).text
    assert "view rebuild of open_orders: running" in text
    assert "21,000 of 48,000 rows" in text
    assert "loading generation 4" in text
    stopped = console.post("/console/jobs/j1/stop", back="/console/views/open_orders?job=j1")
    assert stopped.status == 303
    assert "it was stopped" in console.get(stopped.headers["location"]).text


def test_a_viewer_sees_what_an_operator_may_do_and_may_not_do_it(tmp_path: Path) -> None:
    console = visitor(tmp_path, Role.VIEWER, ("*",))
    for path in ("/console/views/open_orders", "/console/snapshots", "/console/dead-letters"):
        page = console.get(path).text
        assert "<button disabled" in page
        assert "Your role is viewer: an operator may do this." in page
        assert "/console/do/" not in page
    refused = console.post("/console/do/rebuild", view="open_orders")
    assert refused.status == 403
    assert "Alice may not act." in refused.text
    assert console.jobs.begun == []
    assert console.get("/console/audit").status == 403
    assert "/console/audit" not in console.get("/").text


def test_a_key_of_a_row_is_for_who_may_see_it(tmp_path: Path) -> None:
    console = visitor(tmp_path, Role.OPERATOR, ("public.customers",))
    refused = console.post("/console/do/retry", view="open_orders", key="17")
    assert refused.status == 403
    assert console.post("/console/do/retry", view="open_orders").status == 303
    assert len(console.jobs.begun) == 1


def test_what_destroys_is_asked_about_first_and_wants_a_reason(tmp_path: Path) -> None:
    console = visitor(tmp_path, Role.OPERATOR, ("*",))
    listed = console.get("/console/dead-letters").text
    assert 'action="/console/act/discard"' in listed
    assert "/console/do/discard" not in listed
    asked = console.get("/console/act/discard?view=open_orders&key=17&back=/console/dead-letters")
    assert "is deleted and never applied" in asked.text
    lacking = console.post("/console/do/discard", view="open_orders", key="17")
    assert lacking.status == 400
    assert "The form lacks reason." in lacking.text
    done = console.post("/console/do/discard", view="open_orders", key="17", reason="a duplicate")
    assert done.status == 303


def test_a_refusal_is_told_on_the_form_with_what_was_typed(tmp_path: Path) -> None:
    console = visitor(tmp_path, Role.OPERATOR, ("*",))
    console.jobs.refusal = ProblemError(
        HTTPStatus.CONFLICT, "refused", "no retired generation is kept", "rebuild the view"
    )
    refused = console.post("/console/do/rollback", view="open_orders", to="41", back="/")
    assert refused.status == 409
    found = Markup(refused.text)
    assert found.problems == []
    assert "No retired generation is kept. Rebuild the view." in found.text
    assert 'value="41"' in refused.text
    again = "/console/act/rollback?view=open_orders&amp;back=%2F"
    assert f'data-hx-get="{again}"' in refused.text  # another page would take its place
    unknown = console.post("/console/do/nothing")
    assert unknown.status == 404
    assert "data-hx-get" not in unknown.text
    assert console.post("/console/do/rebuild", view="nowhere").status == 404


def test_a_page_tells_of_one_job() -> None:
    assert with_job("/console/views?job=old&x=1", "new") == "/console/views?x=1&job=new"
    assert "running" not in Markup(Console().get("/console/audit?job=gone").text).text


def test_the_audit_log_has_who_did_what(tmp_path: Path) -> None:
    text = Markup(visitor(tmp_path, Role.OPERATOR).get("/console/audit").text).text
    assert sample.NASTY in text
    assert "a viewer may not act" in text
