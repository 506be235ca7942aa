"""What a killed run leaves running is ended; who deletes a folder stops the servers in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import process, servers, state
from stack.guardian import Guardian
from stack.postgres import outside_directory
from stack.process import Process
from tests.support.waiting import wait_until

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `make clean` needs of a checkout, without an environment."""
    for needed in ("Makefile", "stack", "cdc"):
        (tmp_path / needed).symlink_to(CHECKOUT / needed)
    return tmp_path


@pytest.fixture
def homes(checkout: Path) -> Iterator[dict[Path, Process]]:
    """Running servers as `headwater up` and `headwater demo --keep` leave them."""
    running: dict[Path, Process] = {}
    for home in (checkout / ".headwater/stack", checkout / ".headwater/demo/servers"):
        servers.start(home, ["redis"])
        server = state.load(home)["redis"].process
        assert server is not None
        running[home] = server
    yield running
    for server in running.values():
        process.kill(server)


def make_clean(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "clean", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_make_clean_stops_every_server_below_the_folder_it_deletes(
    checkout: Path, homes: dict[Path, Process]
) -> None:
    done = make_clean(checkout)
    assert done.returncode == 0, done.stderr
    assert not any(process.alive(server) for server in homes.values())
    assert not (checkout / ".headwater").exists()


def test_make_clean_deletes_nothing_when_it_cannot_know_what_runs(
    checkout: Path, homes: dict[Path, Process]
) -> None:
    [*_, home] = homes
    (home / "state.json").write_text("{")
    refused = make_clean(checkout)
    assert refused.returncode != 0
    assert f"{home.relative_to(checkout)}/state.json cannot be read" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert process.alive(homes[home])
    assert home.exists()


def end_of_killed(command: list[str], ready: Callable[[], object], what: str) -> None:
    """Start a run, ``kill -9`` it once ``ready``, and wait until all it started is gone."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as run:
        try:
            wait_until(lambda: ready() or run.poll() is not None, what)
            assert run.poll() is None, f"ended by itself, before {what}"
            started = process.descendants(run.pid)
        finally:
            run.kill()
    try:
        wait_until(
            lambda: not any(process.alive(one) for one in started),
            "all that the run had started to be gone",
        )
    finally:
        for one in started:
            process.kill(one)


def test_a_test_run_that_is_killed_leaves_no_server_and_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(
        "import threading\nfrom pathlib import Path\nfrom stack import servers\n"
        "def test_endless(postgres, stack_home, tmp_path):\n"
        "    servers.start(tmp_path / 'own', ['redis'])\n"
        "    Path(__file__).with_name('home').write_text(str(stack_home))\n"
        "    threading.Event().wait()\n"
    )
    said = tmp_path / "home"
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", str(tmp_path)]
    end_of_killed(command, lambda: said.exists() and said.read_text(), "the servers to run")
    home = Path(said.read_text())
    wait_until(lambda: not home.parent.exists(), "the folder of the run to be deleted")
    assert not outside_directory(home).exists()


@pytest.mark.exhaustive
def test_a_demo_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    script = "from headwater.cli.app import main; main()"
    options = ["demo", "--json", "--home", str(home), "--flights", "2000"]
    try:
        end_of_killed(
            [sys.executable, "-c", script, *options],
            lambda: any(log.stat().st_size for log in home.glob("logs/*job.log")),
            "the demo to have its servers, capture and Spark",
        )
        assert {line.condition for line in servers.status(home / "servers")} == {"stopped"}
    finally:
        servers.purge(home / "servers")


def test_a_guardian_that_is_released_does_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        guardian = Guardian()
        guardian.end(child.pid)
        guardian.delete(tmp_path)
        guardian.release()
        assert child.poll() is None
        assert tmp_path.exists()
        child.kill()


def test_a_guardian_leaves_a_stranger_alone_who_was_given_the_pid(tmp_path: Path) -> None:
    """And does the rest of what it was told, though a word of it fails."""
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    (tmp_path / "damaged").mkdir()
    for name in ("lock", "state.json"):
        (tmp_path / "damaged" / name).touch()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        orders = (
            f'["end", "{stranger.pid}", "another moment"]\n["purge", "{tmp_path}"]\n'
            f'["delete", "{doomed}"]\n'
        )
        command = [sys.executable, "-m", "stack.guardian"]
        subprocess.run(command, input=orders, text=True, check=True)
        assert stranger.poll() is None
        stranger.kill()
    assert not doomed.exists()
