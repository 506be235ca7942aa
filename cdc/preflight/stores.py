"""Checks of the stores: does the place answer, with the standard library alone.

What a store says of a view's rows is for the views; here only its address and rights count.
"""

from __future__ import annotations

import os
import socket
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from cdc.config import Config, Delta, OpenSearch, Redis
from cdc.preflight.finding import Finding

_TIMEOUT_S: Final = 5.0


def stores(config: Config) -> Iterator[Finding]:
    """One finding for each store of ``[stores]``."""
    for name, store in config.stores.items():
        check = f"store {name}"
        place = store.path if isinstance(store, Delta) else _address(store.url)
        fault = _fault(store)
        if fault:
            hint = f"start {store.kind}, or correct stores.{name}"
            yield Finding("error", check, f"{store.kind} at {place}: {fault}", hint)
        else:
            yield Finding("ok", check, f"{store.kind} at {place}")


def _fault(store: OpenSearch | Redis | Delta) -> str:
    match store:
        case OpenSearch():
            return _opensearch_fault(store)
        case Redis():
            return _connection_fault(store.url, 6379)
        case Delta():
            return _folder_fault(store.path)


def _opensearch_fault(store: OpenSearch) -> str:
    parts = urlsplit(store.url)
    user, password = store.user or parts.username or "", store.password or parts.password or ""
    request = urllib.request.Request(_address(store.url))
    if user:
        credentials = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
    context = ssl.create_default_context()
    if not store.verify_certs:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context).close()
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code} {error.reason}"
    except urllib.error.URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _connection_fault(url: str, default_port: int) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return "" if Path(parts.path).exists() else "no such socket"
    try:
        address = (parts.hostname or "localhost", parts.port or default_port)
        socket.create_connection(address, _TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _folder_fault(path: str) -> str:
    if "://" in path:
        return ""  # Spark's own file systems reach it, this process may not
    folder = Path(path)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} is not writable"


def _address(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
