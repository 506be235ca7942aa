"""Who asks, from a request; logging in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import structlog

from cdc.config import Serve
from cdc.log_events import LogEvent
from headwater.api.access.login_limits import LoginLimits
from headwater.api.access.passwords import LONGEST_PASSWORD, is_password
from headwater.api.access.principal import LOCAL, Principal
from headwater.api.access.sessions import COOKIE, Sessions
from headwater.api.access.users import UsersFile
from headwater.api.problems import ProblemError

_CHECKS: Final = 2
"""Passwords that are checked at the same time: each takes 50 ms and 64 MB."""
_WAITING: Final = 20

log = structlog.get_logger("serve")


class Access:
    """Use from the event loop. Reads the file of users now: raises ``UsageError`` where that is not
    possible."""

    def __init__(self, serve: Serve) -> None:
        self.users = UsersFile(serve.users)
        self.users.accounts()
        self.sessions = Sessions(serve.session, self.users.user)
        self._limits = LoginLimits()
        self._checks = asyncio.Semaphore(_CHECKS)
        self._waiting = 0

    def principal(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Principal:
        """Who asks. Raises ``ProblemError`` for somebody who is not known."""
        if self.users.is_open_server:
            return LOCAL
        found, kind, said = None, "login-wanted", "log in, or send a token"
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() == "bearer":
                found = self.users.program(token.strip())
            kind, said = "unknown-token", "the token is not known"
        elif secret := cookies.get(COOKIE):
            found = self.sessions.principal(secret)
            kind, said = "session-ended", "the session has ended: log in again"
        if found is None:
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED, kind, said, headers={"WWW-Authenticate": "Bearer"}
            )
        return found

    def still(self, principal: Principal, headers: Mapping[str, str], cookies: Mapping[str, str],
              table: str) -> bool:  # fmt: skip
        """Whether a stream that ``principal`` began may go on."""
        try:
            now = self.principal(headers, cookies)
        except ProblemError:
            return False
        return now.name == principal.name and now.may_see(table)

    async def log_in(self, name: str, password: str, address: str) -> str:
        """What the cookie is to hold. Raises ``ProblemError``."""
        if self.users.is_open_server:
            raise ProblemError(
                HTTPStatus.CONFLICT, "no-users", "this server has no users", "set serve.users"
            )
        if (wait_s := self._limits.wait_s(address, name)) > 0 or self._waiting >= _WAITING:
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS, "too-many-logins", "too many logins have failed",
                headers={"Retry-After": str(max(1, round(wait_s + 0.5)))},
            )  # fmt: skip
        user = self.users.user(name)
        self._limits.failed(address, name)  # taken back: what comes meanwhile is counted, too
        self._waiting += 1
        try:
            async with self._checks:
                hashed = user.proof if user else None
                is_right = len(password) <= LONGEST_PASSWORD and await asyncio.to_thread(
                    is_password, hashed, password
                )
        finally:
            self._waiting -= 1
        if user is None or not is_right:
            log.warning(LogEvent.LOGIN_FAILED, address=address)
            raise ProblemError(
                HTTPStatus.UNAUTHORIZED, "wrong-password", "name or password is wrong",
                headers={"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        self._limits.succeeded(address, name)
        return self.sessions.begin(user)
