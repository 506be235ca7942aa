"""What is remembered of the servers under a home."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import StackError, UsageError
from headwater.cli.status import never_started
from stack import servers, state
from stack.leftovers import homes_below
from stack.process import Process
from stack.state import ServerState

REDIS = ServerState("redis", {"main": 20_000}, "/data", {"save": ""}, Process(7, "123"), "then")


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    state.put(tmp_path, {}, REDIS)
    assert state.load(tmp_path) == {"redis": REDIS}


def test_nothing_was_saved_where_nothing_ran(tmp_path: Path) -> None:
    assert state.load(tmp_path) == {}
    assert servers.stop(tmp_path) == []
    assert {line.condition for line in servers.status(tmp_path)} == {"stopped"}


def test_in_another_folder_it_says_where_it_looked_and_where_homes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, below = Path(".headwater/stack"), tmp_path / "shop" / "sql"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    said = never_started(home, "down")
    assert said == (
        f"no servers were ever started under {below / home}: go to the folder of `headwater up`,"
        " or name it with --home DIR"
    )
    with state.locked(tmp_path / "shop" / home):
        pass
    for folder in (below, tmp_path):
        monkeypatch.chdir(folder)
        said = never_started(home, "down")
        assert said.endswith(f": try headwater down --home {tmp_path / 'shop' / home}")
    monkeypatch.chdir(tmp_path / "shop")
    assert never_started(home, "down") == ""


def test_a_state_database_is_no_home_of_servers(tmp_path: Path) -> None:
    """Its lock is held by apply, which an old folder may still have: nobody waits for it."""
    database, home = tmp_path / "state" / "_database", tmp_path / "stack"
    database.mkdir(parents=True)
    for name in ("lock", "place.json"):
        (database / name).touch()
    with state.locked(home):
        assert list(homes_below(tmp_path)) == [home]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1, "servers": [{}]}'])
def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StackError, match=r"state\.json cannot be read .* delete"):
        state.load(tmp_path)


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"version": 2, "servers": []}')
    with pytest.raises(StackError, match="of version 2"):
        state.load(tmp_path)


def test_a_server_whose_process_is_gone_is_dead(tmp_path: Path) -> None:
    state.put(tmp_path, {}, REDIS)
    by_name = {line.name: line.condition for line in servers.status(tmp_path)}
    assert by_name["redis"] == "dead"


def test_an_address_of_a_server_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"kafka does not run\. Run `headwater up --only kafka`"):
        _ = servers.endpoints(tmp_path).kafka_bootstrap


def test_an_unknown_name_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no server is called mysql\. Choose from kafka"):
        servers.start(tmp_path / "home", ["mysql"])
    assert not (tmp_path / "home").exists()


def test_a_purge_leaves_a_directory_alone_that_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    servers.purge(tmp_path)
    assert (tmp_path / "log").is_dir()


def test_a_folder_that_cannot_be_looked_into_is_no_home(tmp_path: Path) -> None:
    assert not state.was_started(tmp_path / ("long" * 100))


def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    with pytest.raises(StackError, match=r"Not a directory\. Name another folder with --home"):
        servers.start(home, ["redis"])
