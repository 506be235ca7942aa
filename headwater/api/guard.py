"""What stands before every handler: whom a request may come from, how large it may be, and the
headers of every answer. Pure ASGI, so that streams pass unbuffered.

* ``Host`` has to be ours: a page whose name resolves to 127.0.0.1 (DNS rebinding) has another.
* A page of another site may not ask for anything, but link to a page of the console; and nothing
  changes without an ``Origin`` of ours where a cookie is what says who asks (CSRF).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from cdc.config import Serve
from headwater.api.access.sessions import COOKIE
from headwater.api.problems import ProblemError, answer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RELEASES: Final = "headwater.releases"
"""In a request's scope: what a handler has taken, given back when the answer is sent or the client
has gone, whatever happened between."""
_MOST_BODY: Final = 64 << 10
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_PAGES: Final = ("/", "/status")
_LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TLS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")


class Guard:
    """The application behind its checks."""

    def __init__(self, app: App, serve: Serve) -> None:
        self._app = app
        names = {*serve.hosts, serve.host} | (_LOCAL_NAMES if serve.is_local else set())
        self._names = frozenset(name.lower() for name in names)
        self._any_name = not serve.is_local and not serve.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_tls = scope.get("scheme") == "https"
        releases: list[Callable[[], None]] = []
        scope[RELEASES] = releases

        async def guarded_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _completed(message.get("headers", []), is_tls)
            await send(message)

        try:
            self._refuse(scope)
            await self._app(scope, _bounded(receive), guarded_send)
        except ProblemError as problem:
            await answer(problem)(scope, receive, guarded_send)
        finally:
            for release in releases:
                release()

    def _refuse(self, scope: Scope) -> None:
        """Raise ``ProblemError`` for a request that no handler is to see."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if not (self._any_name and host) and _name_of(host) not in self._names:
            raise ProblemError(
                HTTPStatus.MISDIRECTED_REQUEST, "unknown-host",
                "the Host of the request is no name of this server", "add it to serve.hosts",
            )  # fmt: skip
        if _is_large(headers.get(b"content-length", "0")):
            raise too_large()
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", "none")
        foreign = origin is not None and _place_of(origin) != host.lower()
        if foreign or (site in ("cross-site", "same-site") and not _is_link(scope, headers)):
            raise ProblemError(
                HTTPStatus.FORBIDDEN, "foreign-origin", "a page of another site sent the request"
            )
        by_cookie = f"{COOKIE}=" in headers.get(b"cookie", "")
        if scope["method"] not in _SAFE and by_cookie and origin is None:
            raise ProblemError(
                HTTPStatus.FORBIDDEN, "no-origin",
                "a request that changes something has a cookie and no Origin",
            )  # fmt: skip


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _is_link(scope: Scope, headers: Mapping[bytes, str]) -> bool:
    """Whether somebody follows a link to a page of the console: the page that has it reads nothing
    of the answer, and nothing changes by it."""
    path = scope["path"]
    return (
        scope["method"] in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == "navigate"
        and headers.get(b"sec-fetch-dest") == "document"
        and (path in _PAGES or path.startswith("/console/"))
    )


def too_large() -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"a body has at most {_MOST_BODY:,} bytes"
    )


def _is_large(length: str) -> bool:
    return not length.isdecimal() or int(length) > _MOST_BODY


def _bounded(receive: Receive) -> Receive:
    """The same, of a body that says nothing of its length, too."""
    size = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > _MOST_BODY:
            raise too_large()
        return message

    return bounded


def _name_of(host: str) -> str:
    """Without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _completed(headers: list[tuple[bytes, bytes]], is_tls: bool) -> list[tuple[bytes, bytes]]:
    known = {name.lower() for name, _ in headers}
    more = [*_HEADERS, *([_TLS_ONLY] if is_tls else [])]
    if b"cache-control" not in known:
        more.append((b"cache-control", b"no-store"))
    return [*headers, *(one for one in more if one[0] not in known)]
