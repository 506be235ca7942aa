"""The documentation site: every link and anchor leads somewhere, and nothing is fetched from
elsewhere when it is read. The page of commands is what the commands say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.common import command_reference

ROOT = Path(__file__).parents[3]
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\"\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a warning, such as of a link that leads nowhere, fails."""
    target = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).parent / "mkdocs"
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--quiet", "--site-dir", target],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return target


def test_the_site_has_each_page_and_fetches_nothing(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    fetched = {url for page in pages for url in _FETCHED.findall(page.read_text(encoding="utf-8"))}
    assert fetched == set()


def test_search_finds_a_setting_and_an_alarm(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    text = {entry["location"]: entry["text"] for entry in index["docs"]}
    assert any("reconnect_s" in said for at, said in text.items() if "configuration" in at)
    assert any("HW012" in at.upper() + said for at, said in text.items() if "alarms" in at)


def test_the_page_of_commands_is_what_they_say() -> None:
    written = command_reference.PAGE.read_text(encoding="utf-8")
    assert written == command_reference.page(), "run `make docs`"
    for verb in ("headwater init", "headwater view rebuild", "headwater dead-letters list"):
        assert re.search(rf"^##+ {verb}$", written, re.MULTILINE)
