"""Requests to a schema registry, by Confluent's HTTP API.

Four requests are all that capture has: the standard library's client makes them
(decision 46). Connections stay open; one that was closed meanwhile is opened again.
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPSConnection,
)
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cdc.config.registry import Registry
from cdc.errors import RetryableError
from cdc.secret_values import latest
from cdc.tls import certificates, client_context

TIMEOUT_S: Final = 10.0
"""A server that decodes for nobody is told so well before ``wal_sender_timeout``."""
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_BUSY: Final = frozenset({408, 425, 429})
_SERVER: Final = 500
_OTHER_AUTHORITY: Final = "set ssl_ca_location of [events.registry] to who signed its certificate"
_OTHER_NAME: Final = "write the host in events.registry.url as its certificate names it"
_CERTIFICATE_HINTS: Final = {
    **dict.fromkeys((18, 19, 20, 21), _OTHER_AUTHORITY),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}
"""By OpenSSL's codes (``x509_vfy.h``): nobody knows the issuer, or it is for another host."""
_HUNG_UP: Final = (ConnectionResetError, BrokenPipeError, BadStatusLine)
"""What a server with TLS does to who speaks without: which of them is a matter of moments."""


class RefusedError(Exception):
    """The registry's answer is no. ``status`` is HTTP's, ``code`` the registry's own."""

    def __init__(self, status: int, code: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason


class Client:
    """Asks one registry. One thread owns it."""

    def __init__(self, settings: Registry) -> None:
        self.url = settings.url
        self._settings = settings
        self._parts = urlsplit(settings.url)
        self._connection: HTTPConnection | None = None

    def get(self, *path: str) -> Any:
        """The answer to GET; ``path`` are its parts. See ``post``."""
        return self._ask("GET", path, None)

    def post(self, body: dict[str, Any], *path: str) -> Any:
        """The answer to POST. Raises ``RetryableError`` while the registry does not answer, or is
        not able to; ``RefusedError`` when it says no."""
        return self._ask("POST", path, body)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: tuple[str, ...], body: dict[str, Any] | None) -> Any:
        kept = self._connection is not None
        try:
            return self._answer(method, path, body)
        except (OSError, HTTPException) as error:
            self.close()
            if not kept:
                raise self._silent(error) from None
        try:  # the connection was closed while nothing was asked
            return self._answer(method, path, body)
        except (OSError, HTTPException) as error:
            self.close()
            raise self._silent(error) from None

    def _answer(self, method: str, path: tuple[str, ...], body: dict[str, Any] | None) -> Any:
        connection = self._connection = self._connection or self._connect()
        target = "/".join([self._parts.path, *(quote(part, safe="") for part in path)])
        sent = None if body is None else json.dumps(body)
        connection.request(method, target, sent, self._headers())
        response = connection.getresponse()
        text = response.read()
        if response.status in _BUSY or response.status >= _SERVER:
            raise RetryableError(
                f"the schema registry at {self.url} answers {response.status}: {_reason(text)}",
                "check the registry",
            )
        if response.status >= 300:
            raise RefusedError(response.status, _code(text), _reason(text))
        try:
            return json.loads(text)
        except ValueError:
            raise RefusedError(response.status, 0, "the answer is no JSON") from None

    def _connect(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port, timeout=TIMEOUT_S)
        context = client_context(certificates(self._settings.ssl_ca_location))
        return HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if name := self._settings.username:
            password = latest(self._settings.password.get_secret_value())
            login = b64encode(f"{name}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        return headers

    def _silent(self, error: Exception) -> RetryableError:
        reason = str(error) or type(error).__name__
        hint = "check events.registry.url, and whether the registry runs"
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is refused: {error.verify_message}"
            hint = _CERTIFICATE_HINTS.get(
                error.verify_code, "give the registry another certificate"
            )
        elif isinstance(error, ssl.SSLError):
            hint += "; if it has no TLS there, write http://"
        elif self._parts.scheme == "http" and isinstance(error, _HUNG_UP):
            hint += "; if it has TLS there, write https://"
        return RetryableError(f"the schema registry at {self.url} does not answer: {reason}", hint)


def _document(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _code(text: bytes) -> int:
    code = _document(text).get("error_code", 0)
    return code if isinstance(code, int) else 0


def _reason(text: bytes) -> str:
    found = _document(text)
    reason = found.get("message") or found.get("detail") or found.get("title") or ""
    return " ".join(str(reason).split())[:1000] or "it gives no reason"
