"""Signed messages over HTTP, as Standard Webhooks has them: for alarms and for rows.

The URL may hold a token, and is in no message of an error.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cdc.alarms.deadline import WatchedHttp, WatchedHttps, within
from cdc.alarms.signature import signature, webhook_key

_ANSWER_S: Final = 10.0
REFUSALS: Final = (OSError, HTTPException, ValueError)
"""What ``send`` raises where the receiver did not take a message."""


class Sender:
    """Use from any thread."""

    def __init__(self, url: str, secret_file: str) -> None:
        self._url, self._secret_file = url, secret_file
        self._open = urllib.request.build_opener(_NoRedirect, WatchedHttp, WatchedHttps).open

    @property
    def host(self) -> str:
        return urlsplit(self._url).hostname or ""

    def send(self, message_id: str, body: bytes) -> None:
        """Raises ``OSError`` or ``HTTPException`` if the receiver did not take it, ``ValueError``
        where the secret is none; it is read each time, so that it can be replaced."""
        key = webhook_key(Path(self._secret_file).read_text(encoding="utf-8"))
        now_s = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "headwater",
            "webhook-id": message_id,
            "webhook-timestamp": str(now_s),
            "webhook-signature": signature(key, message_id, now_s, body),
        }
        request: Any = urllib.request.Request(self._url, body, headers, method="POST")
        with within(_ANSWER_S) as request.deadline, self._open(request, timeout=_ANSWER_S):
            pass


def status_of(error: Exception) -> int | None:
    """What the receiver answered; None where nobody did."""
    return error.code if isinstance(error, urllib.error.HTTPError) else None


def reason_of(error: Exception) -> str:
    """Why a message was not taken, in words that show no URL."""
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code}"
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return f"no answer in {_ANSWER_S:g} s"
    if isinstance(error, InvalidURL | UnicodeError):
        return type(error).__name__  # its text quotes the path
    return str(getattr(error, "reason", error))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Whom the configuration does not name is sent nothing: a redirect is a refusal."""

    def redirect_request(self, *_: Any) -> None:
        return None
