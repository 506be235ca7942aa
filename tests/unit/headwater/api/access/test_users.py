"""The file of users, its hashes, and the sessions that rest on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import UsageError
from headwater.api.access.passwords import (
    fresh_token,
    hashed_password,
    hashed_token,
    is_password,
    is_password_hash,
)
from headwater.api.access.principal import LOCAL, Principal, Role
from headwater.api.access.sessions import Sessions
from headwater.api.access.users import UsersFile, read_accounts, write_account

HASHED = hashed_password("correct horse battery")


def test_passwords_are_argon2_and_tokens_random() -> None:
    assert HASHED.startswith("$argon2id$")
    assert is_password_hash(HASHED)
    assert is_password(HASHED, "correct horse battery")
    assert not is_password(HASHED, "correct horse batterz")
    assert not is_password(None, "")
    assert not is_password_hash("$argon2i$v=19$m=16,t=2,p=1$c29tZXNhbHQ$x")
    assert fresh_token() != fresh_token()


def test_accounts_are_added_and_replaced_and_the_owner_alone_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    write_account(path, "users", "alice@example.org", HASHED, Role.OPERATOR, ("*",))
    write_account(path, "tokens", "cache", hashed_token("a"), Role.VIEWER, ('public."odd"',))
    write_account(path, "users", "bob", HASHED, Role.VIEWER, ())
    write_account(path, "tokens", "cache", hashed_token("b"), Role.VIEWER, ("public.x",))
    accounts = read_accounts(path)
    assert set(accounts.users) == {"alice@example.org", "bob"}
    assert [one.name for one in accounts.tokens.values()] == ["cache"]
    users = UsersFile(str(path))
    assert users.program("a") is None
    program = users.program("b")
    assert program is not None
    assert program.may_see("public.x")
    assert not program.may_see("public.y")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(UsageError, match="Chmod 600"):
        read_accounts(path)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[admins.a]\n",
        "[users.a]\n",
        '[users.a]\npassword = "plain"\nrole = "viewer"\n',
        f'[users.a]\npassword = "{HASHED}"\nrole = "root"\n',
        f'[users.a]\npassword = "{HASHED}"\nrole = "viewer"\ntables = "*"\n',
        f'[users.a]\npassword = "{HASHED}"\nrole = "viewer"\nmore = 1\n',
        '[tokens.a]\ntoken = "hw_x"\nrole = "viewer"\n',
        f'[users."a b"]\npassword = "{HASHED}"\nrole = "viewer"\n',
    ],
)
def test_a_file_that_is_wrong_is_refused_and_shows_no_hash(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError) as refused:
        read_accounts(path)
    assert "argon2id$v" not in str(refused.value)


def test_a_file_that_breaks_while_it_is_used_lets_nobody_new_in(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    write_account(path, "users", "bob", HASHED, Role.VIEWER, ())
    users = UsersFile(str(path))
    assert users.user("bob")
    path.write_text("broken [")
    assert users.user("bob"), "as it was"
    path.unlink()
    assert users.user("bob") is None


@pytest.mark.parametrize(
    ("granted", "table", "may"),
    [
        ("*", "public.orders", True),
        ("public.*", "public.orders", True),
        ("public.*", "publics.orders", False),
        ("public.orders", "public.orders", True),
        ("public.orders", "public.orders2", False),
        ("orders", "public.orders", False),
        ("public.o*", "public.orders", False),
        ("public.a.b", "public.a.b", True),
    ],
)
def test_rows_are_granted_by_table(granted: str, table: str, may: bool) -> None:
    assert Principal("x", Role.OPERATOR, frozenset((granted,))).may_see(table) == may
    assert LOCAL.may_see(table)


def test_a_session_ends_by_time_by_its_user_and_by_a_new_password() -> None:
    now, users = [0.0], {"bob": Principal("bob", Role.VIEWER, frozenset(), "hash 1")}
    sessions = Sessions(60, users.get, lambda: now[0])
    first, second = sessions.begin(users["bob"]), sessions.begin(users["bob"])
    assert first != second
    assert sessions.principal(first) == users["bob"]
    assert sessions.principal(first + "x") is None
    now[0] = 61
    assert sessions.principal(first) is None
    third = sessions.begin(users["bob"])
    users["bob"] = users["bob"]._replace(proof="hash 2")
    assert sessions.principal(third) is None
    fourth = sessions.begin(users["bob"])
    del users["bob"]
    assert sessions.principal(fourth) is None
