"""What the first `make` tells while pip works, in a log: few lines, and how far it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PIP = """Collecting a==1 (from -r requirements.lock (line 1))
  Downloading a-1-py3-none-any.whl (1 kB)
Collecting b==2 (from -r requirements.lock (line 5))
Installing collected packages: a, b
Successfully installed a-1 b-2
"""


def told(output: str, seconds: int, venv: Path) -> list[str]:
    script = [str(ROOT / "stack" / "pip_progress.sh"), "2", str(venv), str(seconds)]
    done = subprocess.run(script, input=output, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_packages_are_counted_and_then_what_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    lines = told(PIP, 0, tmp_path)
    assert "  downloading: 1 of 2 packages" in lines
    assert "  downloading: 2 of 2 packages" in lines
    assert lines[-1].startswith("  unpacking: ")
    assert lines[-1].endswith(f" MB are in {tmp_path}")


def test_a_log_gets_a_line_now_and_then_only(tmp_path: Path) -> None:
    downloads = "".join(f"Collecting p{one}==1\n" for one in range(500))
    assert told(downloads, 3_600, tmp_path) == []


def test_a_pip_that_fails_fails_the_setup() -> None:
    script = (ROOT / "stack" / "bootstrap.sh").read_text(encoding="utf-8")
    assert "set -euo pipefail" in script
    assert 'stack/pip_progress.sh "$packages" "$venv"' in script
