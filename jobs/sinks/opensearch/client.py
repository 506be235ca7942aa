"""An OpenSearch cluster: its client, how long it is waited for, and what its refusals mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import opensearchpy
import orjson
import structlog
from urllib3.exceptions import InsecureRequestWarning

from cdc.config import OpenSearch
from cdc.errors import RetryableError, SinkError, ViewError
from cdc.log_events import LogEvent
from cdc.secret_values import latest
from cdc.tls import certificates, client_context
from jobs.sinks.batch_writer import until
from jobs.sinks.opensearch.bulk import is_passing, reason
from jobs.sinks.opensearch.json_fields import exact as exact_json

TIMEOUT_S = 60.0

_ENDED = "EOF occurred"
"""What OpenSSL says of a server that went away in the handshake."""
log = structlog.get_logger("apply")
_T = TypeVar("_T")
Client: TypeAlias = opensearchpy.OpenSearch
Refusal: TypeAlias = opensearchpy.TransportError
"""What an action raises when the server refuses it: status, type, answer."""
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
    authorities: str = field(default="", repr=False)
    """PEM; empty: whom the system trusts."""
    exact: bool = False
    """Whether numbers in answers know how they are written (``json_fields.exact``)."""

    @property
    def client(self) -> Client:
        how = self.verify_certs, self.authorities, self.exact
        return _client(latest(self.url), self.user, latest(self.password), *how)

    @property
    def place(self) -> str:
        """The host and port of the URL: what may be shown of it."""
        parts = urlsplit(self.url)
        return f"OpenSearch at {parts.hostname}:{parts.port or 9200}"

    def call(self, action: Action[_T]) -> _T:
        """Run ``action``, again for up to ``retry_s`` while the server is away or busy."""
        return until(self.retry_s, lambda: self.attempt(action))

    def call_on(self, index: str, action: Action[_T]) -> _T:
        """As ``call``, of an index (or alias) that is there: a node that is just starting says of
        some requests that it is not, before it has read which indexes it has."""

        def attempt() -> _T:
            try:
                return self.attempt(action)
            except SinkError as error:
                if _status(error.__cause__) == HTTPStatus.NOT_FOUND and self.attempt(there):
                    raise BusyError(f"{self.place} does not know {index} yet") from error
                raise

        def there(client: Client) -> Any:  # refused with 503 as long as it has not read them
            return client.indices.get_mapping(index=index, params={"ignore_unavailable": "true"})

        return until(self.retry_s, attempt)

    def declare(self, what: str, index: str | None, action: Action[_T]) -> _T:
        """As ``call``, or ``call_on`` an index, for what is made of a declaration: it has no
        values, so that what the server says of it is shown. Raises ``ViewError``."""
        try:
            return self.call(action) if index is None else self.call_on(index, action)
        except SinkError as error:
            cause = error.__cause__
            if _status(cause) != HTTPStatus.BAD_REQUEST:
                raise
            raise ViewError(
                f"{what}: {self.place} refused it: {_said(cause)}",
                "correct the mapping and settings of the view",
            ) from cause

    def attempt(self, action: Action[_T]) -> _T:
        """Run ``action`` once. Raises our errors."""
        try:
            return action(self.client)
        except opensearchpy.SSLError as error:
            if _ENDED in str(error):
                raise self._away(error) from error
            raise SinkError(
                f"{self.place}: no trusted TLS connection",
                "check the certificate, and ssl_ca_location of the store",
            ) from error
        except opensearchpy.ConnectionError as error:
            raise self._away(error) from error
        except opensearchpy.TransportError as error:
            raise self._refused(error) from error

    def _away(self, error: opensearchpy.ConnectionError) -> RetryableError:
        return RetryableError(
            f"{self.place} does not answer ({type(error).__name__})",
            "start it, or correct the store's url",
        )

    def _refused(self, error: opensearchpy.TransportError) -> RetryableError | SinkError:
        status = _status(error)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return TooLargeError(f"{self.place} refuses a request of this size (HTTP 413)")
        if status in (401, 403):
            return SinkError(
                f"{self.place} refused the login or lacks a privilege (HTTP {status})",
                "check user and password of the store, and the user's rights",
            )
        cause = error.info.get("error") if isinstance(error.info, dict) else None
        detail = reason(cause) if isinstance(cause, dict) else str(error.error)[:200]
        if is_passing(status):
            return BusyError(f"{self.place} is busy (HTTP {status}): {detail}")
        return SinkError(f"{self.place} refused a request (HTTP {status}): {detail}")


def _status(error: object) -> int:
    """Of HTTP; 0 where nothing was answered."""
    status = getattr(error, "status_code", 0)
    return status if isinstance(status, int) else 0


def _said(error: Any) -> str:
    """The server's own words, of the innermost cause."""
    cause = error.info.get("error") if isinstance(error.info, dict) else None
    while isinstance(cause, dict) and isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    text = cause.get("reason") if isinstance(cause, dict) else error.error
    return " ".join(str(text).split())[:300]


def server_of(config: OpenSearch, retry_s: float) -> Server:
    """The server of a store. Raises ``ConfigError`` for a file that cannot be read."""
    authorities = certificates(config.ssl_ca_location)
    return Server(
        config.url, config.user, config.password, config.verify_certs, retry_s, authorities
    )


@cache
def _client(
    url: str, user: str, password: str, verify_certs: bool, authorities: str, exact: bool
) -> Client:
    """One client a process, and one whose answers are ``exact``. It never tries again by itself:
    ``Server.call`` decides that."""
    encrypted = url.startswith("https:")
    if encrypted and not verify_certs:
        log.warning(LogEvent.CERTIFICATES_ARE_NOT_VERIFIED, store=urlsplit(url).hostname)
        warnings.simplefilter("ignore", InsecureRequestWarning)  # the same, for each request
    context = client_context(authorities, verified=verify_certs) if encrypted else None
    return opensearchpy.OpenSearch(
        hosts=[url],
        http_auth=(user, password) if user else None,
        ssl_context=context,
        timeout=TIMEOUT_S,
        max_retries=0,
        retry_on_timeout=False,
        serializer=_ExactSerializer() if exact else _Serializer(),
    )


class _Serializer(opensearchpy.JSONSerializer):
    """The client's own, several times faster."""

    def loads(self, s: str) -> Any:
        return orjson.loads(s)

    def dumps(self, data: Any) -> Any:
        return data if isinstance(data, str | bytes) else orjson.dumps(data)


class _ExactSerializer(_Serializer):
    def loads(self, s: str) -> Any:
        return exact_json(s)
