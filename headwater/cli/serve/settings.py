"""What keeps `headwater serve` from starting, where it is configured. Asks nobody but the file
system."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cdc.config import Config, Serve
from cdc.errors import HeadwaterError
from headwater.check.finding import Finding

NEEDED: Final = ("argon2", "fastapi", "httptools", "jinja2", "uvicorn", "uvloop")
INSTALL: Final = "install Headwater with its extra: `pip install 'WHEEL[serve]'`"
_SOON_S: Final = 14 * 86_400.0


def serve(config: Config, now_s: float | None = None) -> Iterator[Finding]:
    """Findings, one that is fine if there is no other. Nothing where [serve] has no setting, or
    names its folder alone."""
    if not config.serve.model_fields_set - {"spool"}:  # which has its default made absolute
        return
    found = list(_problems(config, time.time() if now_s is None else now_s))
    yield from found
    if not found:
        listen = config.serve.listen
        yield Finding("ok", "serve", f"headwater serve can be started on {listen}")


def _problems(config: Config, now_s: float) -> Iterator[Finding]:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        yield Finding(
            "warning", "serve", f"headwater serve needs {', '.join(missing)}",
            f"where it is to run, {INSTALL}",
        )  # fmt: skip
        return
    from headwater.api.access.users import UsersFile
    from headwater.api.changes.event_position import refuse_unread

    try:
        refuse_unread(config.form)
        UsersFile(config.serve.users).accounts()
    except HeadwaterError as error:
        for line in error.message.splitlines():
            yield Finding("error", "serve", line, error.hint)
    yield from _of_certificate(config.serve, now_s)
    for setting, path in (("spool", config.serve.spool), ("audit", config.serve.audit)):
        if path and (place := _unwritable(Path(path), setting == "audit")) is not None:
            yield Finding(
                "error", "serve", f"serve.{setting}: {place} cannot be written by this account",
                "choose a folder that it may write",
            )  # fmt: skip


def _of_certificate(given: Serve, now_s: float) -> Iterator[Finding]:
    if not given.tls_key:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(given.tls_certificate, given.tls_key)
    except (OSError, ssl.SSLError) as error:
        yield Finding(
            "error", "serve",
            f"serve.tls_certificate, serve.tls_key: {error.strerror or error}",
            "name PEM files that this account can read, the key without a password",
        )  # fmt: skip
        return
    left_s = _ends_at(given.tls_certificate) - now_s
    if left_s <= 0:
        yield Finding("error", "serve", "serve.tls_certificate has expired", "renew it")
    elif left_s < _SOON_S:
        days = f"{left_s / 86_400:.0f} days"
        yield Finding(
            "warning", "serve", f"serve.tls_certificate expires in {days}",
            "renew it: headwater serve reads it again by itself",
        )  # fmt: skip


def _ends_at(path: str) -> float:
    """When the first certificate of a PEM file expires, in seconds since 1970."""
    from cryptography.x509 import load_pem_x509_certificates

    first = load_pem_x509_certificates(Path(path).read_bytes())[0]
    return first.not_valid_after_utc.timestamp()


def _unwritable(path: Path, is_file: bool) -> Path | None:
    """The nearest place that is there, if it cannot be written."""
    if is_file and path.exists():
        return None if os.access(path, os.W_OK) else path
    place = path.parent if is_file else path
    while not place.exists() and place != place.parent:
        place = place.parent
    usable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return None if usable else place
