"""The file of users: who may log in, with which token a program comes, and what each may see.

    [users.alice]
    password = "$argon2id$..."
    role = "operator"
    tables = ["*"]

    [tokens.cache]
    token = "sha256:..."
    role = "viewer"
    tables = ["public.orders"]

It is read again when it was written, so that a user who was removed is out at once.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from cdc.config.variables import is_open
from cdc.errors import UsageError
from cdc.log_events import LogEvent
from headwater.api.access.passwords import hashed_token, is_password_hash
from headwater.api.access.principal import Principal, Role

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_TOKEN: Final = re.compile(r"sha256:[0-9a-f]{64}")
log = structlog.get_logger("serve")
_SECRETS: Final = {"users": "password", "tokens": "token"}


class Accounts(NamedTuple):
    """What a file says: users by name, programs by the hash of their token."""

    users: Mapping[str, Principal]
    tokens: Mapping[str, Principal]


class UsersFile:
    """Read when it is asked for and was written since. ``is_open_server``: nobody has to log in,
    for there is no file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._mark: tuple[int, int, int] | None = None
        self._accounts = Accounts({}, {})

    @property
    def is_open_server(self) -> bool:
        return self._path is None

    def accounts(self) -> Accounts:
        """Those of the file as it is now; as it was, while it cannot be read as it is.

        Raises ``UsageError`` where it never could be.
        """
        if self._path is None:
            return self._accounts
        try:
            stat = self._path.stat()
            mark = stat.st_mtime_ns, stat.st_size, stat.st_ino
            if mark != self._mark:
                self._accounts = read_accounts(self._path)
                self._mark = mark
        except OSError as error:
            if self._mark is None:
                raise UsageError(
                    f"serve.users: {self._path}: {error.strerror}",
                    "add a user with `headwater serve add-user NAME`",
                ) from None
            self._accounts = Accounts({}, {})  # it was removed: nobody may log in
        except UsageError as error:
            if self._mark is None:
                raise
            self._mark = mark
            log.error(LogEvent.USERS_NOT_READ, error=str(error))
        return self._accounts

    def user(self, name: str) -> Principal | None:
        return self.accounts().users.get(name)

    def program(self, token: str) -> Principal | None:
        return self.accounts().tokens.get(hashed_token(token))


def read_accounts(path: Path) -> Accounts:
    """Raises ``UsageError`` with every problem, ``OSError`` where it cannot be read."""
    text, everybody = path.read_text(encoding="utf-8"), is_open(path)
    if everybody:
        raise UsageError(f"serve.users: {path}: every account of this machine can read it",
                         f"chmod 600 {path}")  # fmt: skip
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"serve.users: {path}: {error}", "correct the file") from None
    problems: list[str] = []
    found: dict[str, dict[str, Principal]] = {"users": {}, "tokens": {}}
    for section, entries in document.items():
        if section not in _SECRETS or not isinstance(entries, dict):
            problems.append(f"[{section}]: write [users.NAME] and [tokens.NAME]")
            continue
        for name, entry in entries.items():
            problem = _problem(section, name, entry)
            if problem:
                problems.append(f"[{section}.{name}]: {problem}")
            else:
                principal = _principal(section, name, entry)
                found[section][principal.proof if section == "tokens" else name] = principal
    if problems:
        lines = "\n".join(f"serve.users: {path}: {one}" for one in problems)
        raise UsageError(lines)
    return Accounts(found["users"], found["tokens"])


def _problem(section: str, name: str, entry: Any) -> str:
    secret = _SECRETS[section]
    if not NAME.fullmatch(name):
        return "a name has letters, digits and ._@-"
    if not isinstance(entry, dict) or entry.keys() - {secret, "role", "tables"}:
        return f"write {secret}, role and tables"
    hashed, role = entry.get(secret), entry.get("role")
    if section == "users" and not (isinstance(hashed, str) and is_password_hash(hashed)):
        return "password is no argon2id hash: `headwater serve add-user` writes one"
    if section == "tokens" and not (isinstance(hashed, str) and _TOKEN.fullmatch(hashed)):
        return "token is no sha256 hash: `headwater serve add-token` writes one"
    if role not in list(Role):
        return "role is viewer or operator"
    tables = entry.get("tables", [])
    if not isinstance(tables, list) or not all(isinstance(one, str) for one in tables):
        return 'tables is a list, as ["public.orders"] or ["*"]'
    return ""


def _principal(section: str, name: str, entry: Mapping[str, Any]) -> Principal:
    tables = frozenset(entry.get("tables", ()))
    return Principal(name, Role(entry["role"]), tables, entry[_SECRETS[section]])


def with_account(
    text: str, section: str, name: str, hashed: str, role: Role, tables: tuple[str, ...]
) -> str:
    """The file's text with one more account, or with that one replaced. Pure."""
    shown = ", ".join(f'"{_escaped(table)}"' for table in tables)
    key = f'"{name}"' if re.search(r"[.@]", name) else name
    entry = (
        f'[{section}.{key}]\n{_SECRETS[section]} = "{hashed}"\n'
        f'role = "{role.value}"\ntables = [{shown}]\n'
    )
    pattern = re.compile(
        rf"^\[{section}\.(?:{re.escape(key)}|\"{re.escape(name)}\")\]\n(?:(?!\[).*\n?)*",
        re.MULTILINE,
    )
    kept = pattern.sub("", text).rstrip("\n")
    return f"{kept}\n\n{entry}" if kept else entry


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def refuse_name(name: str) -> None:
    """Raise ``UsageError`` for what no account can be called."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name", "use letters, digits and ._@-")


def write_account(
    path: Path, section: str, name: str, hashed: str, role: Role, tables: tuple[str, ...]
) -> None:
    """Write the account into the file, which its owner alone can read. Raises ``UsageError``."""
    refuse_name(name)
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(with_account(text, section, name, hashed, role, tables))
        read_accounts(fresh)
        fresh.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name another file in serve.users") from None
