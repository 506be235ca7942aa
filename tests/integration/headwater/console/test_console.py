"""The console in a browser, over a deployment that runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, expect

from headwater.api.access.passwords import hashed_password
from headwater.api.access.principal import Role
from headwater.api.access.users import write_account
from tests.support.commands import view_shop
from tests.support.commands.view_shop import Shop
from tests.support.console.browser import NARROW, WIDE, Visitor, browser
from tests.support.serve.receiver import secret_file
from tests.support.serve.served import Served
from tests.support.servers.forked_command import Child
from tests.support.servers.lent_jvm import Lender

PASSWORD = "correct horse battery"
PAGES = (
    "/", "/console/source", "/console/topics", "/console/views", "VIEW", "/console/snapshots",
    "/console/dead-letters", "/console/changes?table=public.item", "/console/alarms",
    "/console/alarms/HW001", "/status",
)  # fmt: skip


@dataclass
class Open:
    """``pictures`` is a folder for what the browser shows."""

    shop: Shop
    served: Served
    chromium: Browser
    pictures: Path
    process: Child

    @property
    def view(self) -> str:
        return self.shop.name("items")

    def visitor(self, user: str = "alice", **settings: Any) -> Visitor:
        made = Visitor(self.chromium, self.served.base, **settings)
        made.log_in(user, PASSWORD)
        return made


def alerts(shop: Shop) -> str:
    """On rows of a table and of a view, whose conditions nothing meets."""
    of = {"of_table": 'table = "public.item"', "of_view": f'view = "{shop.name("items")}"'}
    return f'[alerts]\nsecret_file = "{secret_file(shop.deployment.home)}"\n' + "".join(
        f'[alerts.rows.{name}]\n{which}\nwhen = "after.id = -1"\nwebhook = "http://127.0.0.1:9"\n'
        for name, which in of.items()
    )


@pytest.fixture(scope="module")
def console(
    postgres: str,
    kafka: str,
    redis_server: str,
    lender: Lender,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Open]:
    """Views that are applied, a server that wants a login, and a browser."""
    home = tmp_path_factory.mktemp("console")
    views = {"items": view_shop.ITEMS, "kinds": view_shop.KINDS}
    with view_shop.opened(home, postgres, kafka, redis_server, lender, views) as shop:
        shop.of_view["items"] = "change_stream = true"
        shop.beside = alerts(shop)
        shop.write()
        users = home / "users.toml"
        hashed = hashed_password(PASSWORD)
        write_account(users, "users", "alice", hashed, Role.OPERATOR, ("*",))
        write_account(users, "users", "bob", hashed, Role.VIEWER, ())
        served = Served(shop.deployment, settings='users = "users.toml"')
        with shop.applied(), served.running() as process, browser() as chromium:
            shop.equal("items", view_shop.ITEMS)
            yield Open(shop, served, chromium, home, process)


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_each_page_is_accessible_fits_the_screen_and_runs_nothing_that_the_policy_forbids(
    console: Open, scheme: str, size: dict[str, int]
) -> None:
    visitor = console.visitor(color_scheme=scheme, viewport=size)
    for path in PAGES:
        place = f"/console/views/{console.view}" if path == "VIEW" else path
        visitor.page.goto(place)
        expect(visitor.page.locator("h1")).to_be_visible()
        if path in ("/", "/status"):
            for alert in ("of_table", "of_view"):
                expect(visitor.page.locator(f"#a-{alert}")).to_contain_text("idle")
        assert visitor.faults() == [], place
        assert visitor.overflow() == 0, place
        name = path.strip("/").replace("/", "-").partition("?")[0] or "overview"
        visitor.page.screenshot(path=console.pictures / f"{name}-{scheme}.png", full_page=True)
    assert visitor.said == []
    visitor.context.close()


def test_the_console_is_used_by_keyboard_alone_and_keeps_its_place_while_it_refreshes(
    console: Open,
) -> None:
    visitor = console.visitor()
    page = visitor.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for name in ("Overview", "Source", "Topics", "Views"):
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name=name, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name=console.view)
    while not link.evaluate("one => one === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    summary = page.locator("#partitions > summary")
    while not summary.evaluate("one => one === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for _ in range(2):
        with page.expect_response(lambda found: found.url.endswith(console.view)):
            pass
    page.wait_for_function("!document.querySelector('.htmx-request, .htmx-swapping')")
    expect(summary).to_be_focused()
    assert page.locator("#partitions").get_attribute("open") is not None
    assert visitor.said == []
    visitor.context.close()


def test_a_server_that_does_not_answer_is_told_and_nothing_stays_green(console: Open) -> None:
    visitor = console.visitor()
    page = visitor.page
    expect(page.locator("#lost")).to_be_hidden()
    visitor.context.set_offline(True)
    expect(page.locator("#lost")).to_contain_text("No answer from the server since")
    assert page.locator("body").get_attribute("data-lost") is not None
    visitor.context.set_offline(False)
    expect(page.locator("#lost")).to_be_hidden()
    visitor.context.close()


def test_an_error_is_shown_in_place_of_old_figures_and_is_an_answer_of_the_server(
    console: Open,
) -> None:
    visitor = console.visitor()
    page = visitor.page
    page.goto("/console/topics")
    expect(page.get_by_role("region", name="Topics")).to_be_visible()
    told = {"body": '<main id="main"><h1>Service Unavailable</h1></main>'}
    page.route("**/console/topics", lambda one: one.fulfill(status=503, **told))
    expect(page.get_by_role("heading", name="Service Unavailable")).to_be_visible()
    expect(page.get_by_role("region", name="Topics")).to_have_count(0)
    told["body"] = "no page"
    expect(page.locator("#lost")).to_contain_text("The server answers with status 503 since")
    page.unroute("**/console/topics")
    expect(page.get_by_role("region", name="Topics")).to_be_visible()
    expect(page.locator("#lost")).to_be_hidden()
    visitor.context.close()


def test_changes_are_shown_as_they_come(console: Open) -> None:
    visitor = console.visitor()
    page = visitor.page
    page.goto("/console/changes")
    page.get_by_label("Table").select_option("public.spare")
    page.get_by_role("button", name="Follow").click()
    expect(page.locator("#feed-state")).to_contain_text("Connected.")
    big = 2**53 + 1  # no number of JavaScript
    console.shop.deployment.execute(
        "alter table spare add column if not exists big bigint",
        f"insert into spare values (1000, '<b>loud</b>', {big})",
    )
    first = page.locator("#feed tbody tr").first
    expect(first).to_contain_text('"word":"<b>loud</b>"')
    expect(first).to_contain_text(f'"big":{big}')
    expect(first).to_contain_text("insert")
    page.get_by_label("Table").select_option("public.item")
    page.get_by_label("Key").fill("7")
    page.get_by_role("button", name="Trace the row").click()
    row = page.get_by_role("region", name="Views that read the table").get_by_role("row")
    expect(row.filter(has_text=console.view)).to_contain_text("yes")
    assert visitor.faults() == []
    assert visitor.said == []
    visitor.context.close()


def test_a_session_that_has_ended_leads_to_the_login_and_back(console: Open) -> None:
    visitor = console.visitor("bob")
    page, other = visitor.page, visitor.tab()
    page.goto(f"/console/views/{console.view}")
    other.goto("/")
    other.get_by_role("button", name="Log out").click()
    page.get_by_label("User").fill("bob")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name=console.view, level=1)).to_be_visible()
    visitor.context.close()


def test_an_operator_has_a_view_verified_by_keyboard_and_a_viewer_sees_why_he_may_not(
    console: Open,
) -> None:
    visitor, watching = console.visitor(), console.visitor("bob")
    for one in (visitor, watching):
        one.page.goto(f"/console/views/{console.view}")
    expect(watching.page.get_by_role("button", name="Verify")).to_be_disabled()
    expect(watching.page.get_by_text("Your role is viewer")).to_be_visible()
    page = visitor.page
    page.get_by_role("button", name="Verify").press("Enter")
    page.get_by_role("button", name="Verify", exact=True).focus()
    assert visitor.faults() == []
    page.keyboard.press("Enter")
    job = page.get_by_role("region", name="Action")
    expect(job).to_contain_text("verify of " + console.view)
    expect(job).to_contain_text("done")
    assert visitor.faults() == []
    page.get_by_role("link", name="Audit").press("Enter")
    expect(page.get_by_role("row").nth(1)).to_contain_text("verify")
    assert visitor.faults() == []
    assert [*visitor.said, *watching.said] == []
    visitor.context.close()
    watching.context.close()


def test_without_script_the_pages_say_the_same(console: Open) -> None:
    visitor = console.visitor(java_script_enabled=False)
    page = visitor.page
    page.get_by_role("link", name="Views", exact=True).click()
    expect(page.get_by_role("link", name=console.view)).to_be_visible()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/console/snapshots")
    page.get_by_role("button", name="Start a snapshot").click()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert").last).to_contain_text("A snapshot needs tables or views.")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    visitor.context.close()


@pytest.mark.exhaustive
def test_tabs_that_come_and_go_leave_nothing_in_the_server(console: Open) -> None:
    visitor = console.visitor()
    paths = ("/", "/console/views", f"/console/views/{console.view}", "/console/source",
             "/console/changes?table=public.item")  # fmt: skip

    def round_of_tabs() -> Any:
        tabs = [visitor.tab() for _ in range(20)]
        for tab, path in zip(tabs, paths * 4, strict=True):
            tab.goto(path)
        for tab in tabs[::5]:
            with tab.expect_response(lambda found: found.status == 200):
                pass
        for tab in tabs:
            tab.close()
        return psutil.Process(console.process.pid).memory_info().rss

    sizes = [round_of_tabs() for _ in range(12)]
    assert sizes[-1] < sizes[3] + 30_000_000, sizes
    visitor.context.close()
