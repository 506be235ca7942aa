"""An OpenSearch cluster: its client, how long it is waited for, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import opensearchpy
import orjson

from cdc.errors import RetryableError, SinkError, ViewError
from jobs.sinks.bulk import reason
from jobs.sinks.writing import until

TIMEOUT_S = 60.0

_PASSING = frozenset({429, 502, 503, 504})
_T = TypeVar("_T")
Client: TypeAlias = opensearchpy.OpenSearch
Action = Callable[[Client], _T]


class BusyError(RetryableError):
    """The server is there, and has too much to do."""


class TooLargeError(SinkError):
    """A request has more bytes than the server takes."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where OpenSearch is and how long to wait for it; can be sent to executors."""

    url: str = field(repr=False)
    user: str
    password: str = field(repr=False)
    verify_certs: bool
    retry_s: float

    @property
    def client(self) -> Client:
        return _client(self.url, self.user, self.password, self.verify_certs)

    @property
    def place(self) -> str:
        """The host and port of the URL: what may be shown of it."""
        parts = urlsplit(self.url)
        return f"OpenSearch at {parts.hostname}:{parts.port or 9200}"

    def call(self, action: Action[_T]) -> _T:
        """Run ``action``, again for up to ``retry_s`` while the server is away or busy."""
        return until(self.retry_s, lambda: self.attempt(action))

    def declare(self, what: str, action: Action[_T]) -> _T:
        """As ``call``, for what is made of a declaration: it has no values, so that what the server
        says of it is shown. Raises ``ViewError``."""
        try:
            return self.call(action)
        except SinkError as error:
            cause = error.__cause__
            if getattr(cause, "status_code", 0) != 400:
                raise
            raise ViewError(
                f"{what}: {self.place} refused it: {_said(cause)}",
                "correct mapping and settings of the view",
            ) from cause

    def attempt(self, action: Action[_T]) -> _T:
        """Run ``action`` once. Raises our errors."""
        try:
            return action(self.client)
        except opensearchpy.SSLError as error:
            raise SinkError(
                f"{self.place}: no trusted TLS connection", "check the certificate, or verify_certs"
            ) from error
        except opensearchpy.ConnectionError as error:
            raise RetryableError(
                f"{self.place} does not answer ({type(error).__name__})",
                "start it, or correct the store's url",
            ) from error
        except opensearchpy.TransportError as error:
            raise self._refused(error) from error

    def _refused(self, error: opensearchpy.TransportError) -> RetryableError | SinkError:
        status = error.status_code
        if status == 413:
            return TooLargeError(f"{self.place} takes no request as large (HTTP 413)")
        if status in _PASSING:
            return BusyError(f"{self.place} is busy (HTTP {status})")
        if status in (401, 403):
            return SinkError(
                f"{self.place} refused the login or a right (HTTP {status})",
                "check user and password of the store, and the user's rights",
            )
        cause = error.info.get("error") if isinstance(error.info, dict) else None
        detail = reason(cause) if isinstance(cause, dict) else str(error.error)[:200]
        return SinkError(f"{self.place} refused a request (HTTP {status}): {detail}")


def _said(error: Any) -> str:
    """The server's own words, of the innermost cause."""
    cause = error.info.get("error") if isinstance(error.info, dict) else None
    while isinstance(cause, dict) and isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    text = cause.get("reason") if isinstance(cause, dict) else error.error
    return " ".join(str(text).split())[:300]


@cache
def _client(url: str, user: str, password: str, verify_certs: bool) -> Client:
    """One client a process. It never tries again by itself: ``Server.call`` decides that."""
    return opensearchpy.OpenSearch(
        hosts=[url],
        http_auth=(user, password) if user else None,
        verify_certs=verify_certs,
        ssl_show_warn=verify_certs,
        timeout=TIMEOUT_S,
        max_retries=0,
        retry_on_timeout=False,
        serializer=_Serializer(),
    )


class _Serializer(opensearchpy.JSONSerializer):
    """The client's own, several times faster."""

    def loads(self, s: str) -> Any:
        return orjson.loads(s)

    def dumps(self, data: Any) -> Any:
        return data if isinstance(data, str | bytes) else orjson.dumps(data)
