"""`headwater serve add-user` and `add-token` with --print: for a file that a container is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.api.access.passwords import is_password
from headwater.api.access.principal import Role
from headwater.api.access.users import read_accounts
from headwater.cli.app import app

PASSWORD = "correct horse battery"


def test_lines_of_several_accounts_make_a_file_that_is_read(tmp_path: Path) -> None:
    """No configuration is there: none is read."""
    runner, missing = CliRunner(), ("--config", str(tmp_path / "none.toml"), "serve")
    users = ("add-user", "alice@example.org", "--role", "operator", "--table", "*", "--print")
    user = runner.invoke(app, [*missing, *users], input=f"{PASSWORD}\n")
    token = runner.invoke(app, [*missing, "add-token", "cache", "--table", "a.b", "--print"])
    path = tmp_path / "users.toml"
    path.write_text(user.stdout + token.stdout)
    path.chmod(0o600)
    accounts = read_accounts(path)
    alice = accounts.users["alice@example.org"]
    assert (alice.role, alice.tables) == (Role.OPERATOR, frozenset("*"))
    assert is_password(alice.proof, PASSWORD)
    (cache,) = accounts.tokens.values()
    assert (cache.name, cache.tables) == ("cache", frozenset(["a.b"]))
    assert token.stderr.startswith("hw_")
    assert token.stderr.strip() not in token.stdout


@pytest.mark.parametrize("words", [["add-user", "x y"], ["add-user", "x", "--role", "root"]])
def test_what_would_not_be_read_is_not_printed(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["serve", *words, "--print"], input=f"{PASSWORD}\n")
    assert (type(done.exception).__name__, done.stdout) == ("UsageError", "")
