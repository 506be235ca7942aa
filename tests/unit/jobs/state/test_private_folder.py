"""Who may enter what is below ``apply.state``: it holds rows, offsets and errors of views."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.generations.generation_record import read_generations, write_generations
from jobs.generations.view_locks import turn
from jobs.state.server.os_user import server_environ
from jobs.state.server.private_folder import private_folder


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """None, as some services have it."""
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_a_view_s_folder_is_its_owner_s_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "state" / "shop" / "v", tmp_path / "state" / "shop" / "w"
    with turn(first, "build", 0):
        pass
    write_generations(second, read_generations(second))
    assert [_mode(first), _mode(second)] == [0o700, 0o700]
    for one in (first.parent, first.parent.parent):  # root's server enters by name, nobody lists
        assert _mode(one) == (0o711 if os.geteuid() == 0 else 0o700)


def test_a_folder_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    folder.mkdir(mode=0o755)
    private_folder(folder)
    assert _mode(folder) == 0o700


def test_the_server_of_another_account_is_given_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SHOP_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "LC_MESSAGES"):
        monkeypatch.setenv(name, "confidential")
    environ = server_environ()
    assert "confidential" not in environ.values()
    assert environ["PATH"] == os.environ["PATH"]
