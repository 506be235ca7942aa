"""Debian's Chromium, driven as a person does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 390, "height": 844}
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_DEADLINE_MS: Final = 60_000


@contextmanager
def browser() -> Iterator[Browser]:
    """One that is on this machine: none is downloaded."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.fail("no chromium: run stack/test_tools.sh, or apt-get install chromium")
    expect.set_options(timeout=_DEADLINE_MS)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


class Visitor:
    """Somebody with a browser of their own. ``said`` is all that the browser's console said: there
    is nothing to say."""

    def __init__(self, browser: Browser, base: str, **settings: Any) -> None:
        self.context: BrowserContext = browser.new_context(
            base_url=base, **{"viewport": WIDE, **settings}
        )
        self.context.set_default_timeout(_DEADLINE_MS)
        self.said: list[str] = []
        self.page = self.tab()

    def tab(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        return page

    def log_in(self, user: str, password: str) -> None:
        self.page.goto("/")
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Overview").wait_for()

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        return int(
            self.page.evaluate(
                "Math.max(0, document.documentElement.scrollWidth"
                " - document.documentElement.clientWidth)"
            )
        )

    def faults(self) -> list[str]:
        """What axe finds on the page."""
        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]
