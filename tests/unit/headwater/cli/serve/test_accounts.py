"""`headwater serve add-user` and `add-token` with --print: for a file that a container is given."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc.errors import UsageError
from cdc.source.selection import Table
from headwater.api.access.passwords import is_password
from headwater.api.access.principal import Role
from headwater.api.access.users import read_accounts
from headwater.cli.app import app
from headwater.cli.serve.grants import unknown_grants

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


@pytest.mark.parametrize(
    ("given", "said", "way"),
    [
        ("\n", "no password was given", "at least 12 characters"),
        ("", "no password was given", "first line of standard input"),
        ("elevenchars\n", "the password is too short: it has 11", "at least 12 characters"),
    ],
)
def test_a_password_that_is_not_taken_is_told_with_what_is(given: str, said: str, way: str) -> None:
    done = CliRunner().invoke(app, ["serve", "add-user", "x", "--print"], input=given)
    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
    assert way in done.exception.hint


def test_a_grant_that_gives_nothing_is_told() -> None:
    captured = ["public.customers", "public.orders", "shop.items"]
    assert list(unknown_grants(["*", "shop.*", "public.orders"], captured)) == []
    nothing = "no table of that name is captured"
    assert list(unknown_grants(["public.custmers", "customers", "x.*", "x.y"], captured)) == [
        f"--table public.custmers: {nothing}; did you mean public.customers?",
        f"--table customers: {nothing}; did you mean public.customers?",
        "--table x.*: no table of schema x is captured",
        f"--table x.y: {nothing}",
    ]


def test_an_account_for_a_table_that_is_not_captured_is_written_and_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config, users = tmp_path / "headwater.toml", tmp_path / "users.toml"
    config.write_text(
        '[source]\nname = "shop"\ndsn = "postgresql://127.0.0.1/none"\ntables = ["public.*"]\n'
        f'[kafka]\nbootstrap_servers = "127.0.0.1:9"\n[serve]\nusers = "{users}"\n'
    )
    customers = Table(1, "public", "customers", "r", "p", "d", True)
    monkeypatch.setattr("cdc.source.postgres.connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr("cdc.source.catalog.chosen_tables", lambda *_: ([customers], []))

    def add(table: str) -> Result:
        words = ["--config", str(config), "serve", "add-token", "cache", "--table", table]
        return CliRunner().invoke(app, words)

    misspelt = add("public.custmers")
    assert (misspelt.exit_code, misspelt.stdout[:3]) == (0, "hw_")
    assert "did you mean public.customers?" in misspelt.stderr
    assert add("public.customers").stderr == ""
    (cache,) = read_accounts(users).tokens.values()
    assert cache.tables == frozenset(["public.customers"])
