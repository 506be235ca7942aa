"""The wheel, beside an application that has packages named as ours are in the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.commands.deployment import Deployment
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
ROOMS = [
    "bootstrap",
    "benchmarks",
    "cdc",
    "demo",
    "jobs",
    "migrations",
    "snapshots",
    "stack",
    "verification",
    "views",
]
EVERY_MODULE = """
import importlib, pkgutil, sys
import headwater
own = {"__main__", "submit", "leftovers"}
found = [m.name for m in pkgutil.walk_packages(headwater.__path__, "headwater.")
         if own.isdisjoint(m.name.split(".")) and "spark_merge" not in m.name]
for name in found:
    importlib.import_module(name)
print(len(found), sorted({m.split(".")[0] for m in sys.modules} & set(ROOMS)))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the wheel and nothing else."""
    source, out, site = (tmp_path_factory.mktemp(name) for name in ("source", "wheel", "site"))
    for name in ("setup.py", "pyproject.toml", "README.md", "docker-compose.yml"):
        shutil.copy(ROOT / name, source)
    for room in ("headwater", *ROOMS):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv is not None
    build = [uv, "build", "--wheel", "--no-build-isolation", "--offline", "--python"]
    subprocess.run([*build, sys.executable, "-o", out, source], check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def alone(site: Path, *more: Path) -> dict[str, str]:
    """An environment in which this repository is not installed: ``python -S`` reads no ``.pth``,
    by which it is."""
    path = [site, *more, sysconfig.get_path("purelib")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}


def python(site: Path, cwd: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-S", *arguments], env=alone(site), cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_below_headwater_and_imports_none_that_is_not(
    installed: Path, tmp_path: Path
) -> None:
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"headwater"}
    said = python(installed, tmp_path, "-c", f"ROOMS = {ROOMS}{EVERY_MODULE}")
    count, others = said.split(maxsplit=1)
    assert int(count) > 600
    assert others.strip() == "[]"


def test_a_django_project_may_have_jobs_and_views_of_its_own(
    installed: Path, tmp_path: Path
) -> None:
    python(installed, tmp_path, "-m", "django", "startproject", "shop", ".")
    for app in ("jobs", "views", "snapshots"):
        python(installed, tmp_path, "manage.py", "startapp", app)
    shell = (
        "import headwater, jobs, views, pathlib; headwater.Views; "
        "print([pathlib.Path(one.__file__).parent.parent for one in (jobs, views)])"
    )
    said = python(installed, tmp_path, "manage.py", "shell", "--no-imports", "-c", shell)
    assert said.count(str(tmp_path)) == 2


def test_the_installed_command_captures_and_applies(
    installed: Path, shop: Deployment, redis_server: str
) -> None:
    view = f"{shop.name}_items"
    shop.extra = (
        f'[stores.cache]\nkind = "redis"\nurl = "{redis_server}"\n'
        f'[apply]\nstate = "{shop.home / "state"}"\n'
        f'[views.{view}]\nstore = "cache"\nkey = ["id"]\nsql = "select id, name from item"\n'
    )
    shop.write()
    shop.execute("insert into item values (1, 'before')")
    main = "from headwater.cli.app import main; main()"
    command = [sys.executable, "-S", "-c", main, "--config", str(shop.config)]

    @contextmanager
    def running(verb: str) -> Iterator[None]:
        log = shop.home / f"{verb}.log"
        with log.open("wb") as said:
            process = subprocess.Popen([*command, verb], env=alone(installed), stderr=said)
        try:
            yield
            assert process.poll() is None, log.read_text(encoding="utf-8")
        finally:
            process.terminate()
            process.wait(60)

    begun = subprocess.run([*command, "init"], env=alone(installed), capture_output=True)
    assert begun.returncode == 0, begun.stderr.decode()
    client: Any = redis.Redis.from_url(redis_server, decode_responses=True)

    def names() -> set[str]:
        rows = client.get(f"{view}@live")
        found = [client.hget(key, "doc") for key in client.scan_iter(f"{rows}:*")]
        return {json.loads(row)["name"] for row in found if row}

    with closing(client), running("capture"), running("apply"):
        wait_until(lambda: names() == {"before"}, "the row that was there", 240)
        shop.execute("insert into item values (2, 'after')")
        wait_until(lambda: names() == {"before", "after"}, "the row that came")
