"""``docs/tutorial.md``: every command of it, as it is written, in one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

pytestmark = pytest.mark.server
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
MARK = "@@ block @@"


@pytest.fixture
def shop(database: str, kafka: str, opensearch: str) -> dict[str, str]:
    """The addresses that the page takes from the environment."""
    with psycopg.connect(database) as conn:
        of = conn.info
        dsn = f"postgresql://{of.user}:{of.password}@{of.host}:{of.port}/{of.dbname}"
    return {"SHOP_DSN": dsn, "KAFKA": kafka, "SEARCH": opensearch}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def followed(directory: Path, environment: dict[str, str]) -> list[str]:
    """What each block prints. The servers run already, and the addresses are ours."""
    commands = [
        one for one in blocks("sh") if not one.startswith(("headwater up", "export SHOP_DSN"))
    ]
    script = f"echo '{MARK}'\n".join(commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-emc", script],
        cwd=directory,
        env={**os.environ, **environment, "PATH": path, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    logs = "".join(log.read_text(encoding="utf-8")[-2000:] for log in directory.glob("*.log"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr + logs
    return done.stdout.split(f"{MARK}\n")


def hits(printed: str) -> list[dict[str, object]]:
    found = json.loads(printed[printed.index("{") :])["hits"]["hits"]
    return [one["_source"] for one in found]


def test_the_tutorial_s_commands_do_what_it_says(shop: dict[str, str], tmp_path: Path) -> None:
    servers, _, checked, started, search, changed, seen, removed = followed(tmp_path, shop)
    assert "Applying sales.0001_initial... OK" in servers, servers
    assert "error" not in checked.lower(), checked
    assert "open_orders" in started, started
    (shown,) = blocks("json")
    assert hits(search) == hits(shown)
    assert [(one["item"], one["city"]) for one in hits(changed)] == [
        ("a desk of oak", "Bryn Mawr"),
        ("a paper lamp", "London"),
    ]
    assert "open_orders: equal at LSN" in seen, seen
    with psycopg.connect(shop["SHOP_DSN"]) as conn:
        left = "select from pg_replication_slots where database = current_database()"
        assert conn.execute(left).fetchall() == [], removed
