"""Logging in and out by pages, the files that need no login, and the colours."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from cdc.config import Serve
from headwater.api.access.passwords import hashed_password
from headwater.api.access.principal import Role
from headwater.api.access.users import write_account
from headwater.console.assets import asset
from headwater.console.respond import local_path
from tests.support.console.asked import Console

PASSWORD = "a long password"
HASHED = hashed_password(PASSWORD)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    users = tmp_path / "users.toml"
    write_account(users, "users", "alice", HASHED, Role.VIEWER, ())
    return Console(serve=Serve(users=str(users)))


def test_who_is_not_known_logs_in_and_comes_back(console: Console) -> None:
    sent = console.get("/console/views/open_orders?x=1")
    assert sent.status == 303
    assert sent.headers["location"] == (
        "/console/login?back=/console/views/open_orders%3Fx%3D1"
    )  # fmt: skip
    login = console.get(sent.headers["location"])
    assert login.status == 200
    assert "Overview" not in login.text
    back = console.post("/console/login", user="alice", password=PASSWORD, back="/console/source")
    assert (back.status, back.headers["location"]) == (303, "/console/source")
    assert "HttpOnly" in back.cookies[0]
    assert "SameSite=strict" in back.cookies[0]
    assert "alice, viewer" in console.get("/").text


def test_a_wrong_password_is_told_on_the_page(console: Console) -> None:
    wrong = console.post("/console/login", user="alice", password="guess guess guess")
    assert wrong.status == 401
    assert "Name or password is wrong." in wrong.text
    assert 'value="alice"' in wrong.text
    assert "guess" not in wrong.text
    assert wrong.cookies == []


def test_a_session_ends_with_logging_out_and_a_part_leads_to_the_login(console: Console) -> None:
    console.post("/console/login", user="alice", password=PASSWORD)
    assert console.get("/").status == 200
    out = console.post("/console/logout")
    assert (out.status, out.headers["location"]) == (303, "/console/login")
    part = console.part("/console/source")
    assert part.status == 401
    assert part.headers["hx-redirect"] == "/console/login?back=/console/source"
    shown = {"hx-request": "true", "hx-current-url": "http://["}
    part = console.get("/console/source", **shown)
    assert part.headers["hx-redirect"] == "/console/login?back=/console/source"


def test_a_page_of_another_site_logs_nobody_in(console: Console) -> None:
    foreign = {"origin": "http://evil.example"}
    assert console.post("/console/login", foreign, user="alice", password=PASSWORD).status == 403


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:x", "", "//["],
)
def test_nobody_is_led_to_another_site(console: Console, text: str) -> None:
    assert local_path(text) == "/"
    assert console.get(f"/console/login?back={quote(text)}").status == 200
    back = console.post("/console/login", user="alice", password=PASSWORD, back=text)
    assert back.headers["location"] == "/"


def test_files_are_kept_by_browsers_and_need_no_login(console: Console) -> None:
    first = console.get(asset("console.css"))
    assert first.status == 200
    assert "immutable" in first.headers["cache-control"]
    again = console.get(asset("console.css"), **{"if-none-match": first.headers["etag"]})
    assert (again.status, again.text) == (304, "")
    assert console.get("/console/static/console.css?old").headers["cache-control"] == "no-cache"
    assert console.get("/console/static/..%2froutes.py").status == 404


def test_the_colours_are_remembered() -> None:
    console = Console()
    console.post("/console/theme", theme="dark", back="/console/source")
    assert 'data-theme="dark"' in console.get("/").text
    console.post("/console/theme", theme="<b>", back="/")
    assert 'data-theme="dark"' in console.get("/").text


def test_a_form_is_a_form(console: Console) -> None:
    wrong = console.post(
        "/console/login", {"content-type": "application/json", "origin": "http://localhost"}
    )
    assert wrong.status == 400
