"""The systemd units: read by systemd's own tool, and hardened."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.capture.command import _STOP_S
from jobs.spark.session import _SETTINGS

UNITS = sorted((Path(__file__).parents[3] / "deploy" / "systemd").glob("*.service"))
COMMAND = "/opt/headwater/bin/headwater"


@pytest.fixture(scope="module")
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    return found


@pytest.fixture
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit with a command that is there, as verify asks for."""
    path: Path = request.param
    text = path.read_text(encoding="utf-8")
    assert text.count(f"={COMMAND} --config /etc/headwater/headwater.toml") >= 1
    copy = tmp_path / path.name
    here = str(Path(sys.executable).with_name("headwater"))
    copy.write_text(text.replace(COMMAND, here), encoding="utf-8")
    return copy


each = pytest.mark.parametrize("unit", UNITS, indirect=True, ids=lambda path: path.name)


def _asked(*command: str | Path) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_each_long_running_process_has_one() -> None:
    names = [f"headwater-{verb}.service" for verb in ("apply", "capture", "serve")]
    assert [path.name for path in UNITS] == names


@each
def test_systemd_understands_every_line(analyze: str, unit: Path) -> None:
    assert _asked(analyze, "verify", "--man=no", unit) == (0, "")
    with unit.open("a", encoding="utf-8") as file:
        file.write("Nonsense=1\n")
    assert "Nonsense" in _asked(analyze, "verify", "--man=no", unit)[1]


@each
def test_it_is_hardened(analyze: str, unit: Path) -> None:
    _, said = _asked(analyze, "security", "--offline=true", "--no-pager", unit)
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert float(exposure) < 3


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_it_stops_alone_in_time_and_takes_secrets_from_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (stop_s,) = re.findall(r"(?m)^TimeoutStopSec=(\d+)$", text)
    spark_s = int(_SETTINGS["spark.sql.streaming.stopTimeout"].removesuffix("s"))
    longest_s = {"capture": _STOP_S, "apply": spark_s, "serve": 10}  # as docs/serve.md says
    assert int(stop_s) > longest_s[path.stem.removeprefix("headwater-")]
    assert "\nKillMode=mixed\n" in text  # else the JVM and the database are told to stop, too
    credentials = re.findall(r"(?m)^LoadCredential=(\w+):", text)
    variables = dict(re.findall(r"(?m)^Environment=(\w+)_FILE=%d/(\w+)$", text))
    assert list(variables.values()) == credentials
    assert all(name.lower() == file for name, file in variables.items())
