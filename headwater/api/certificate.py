"""``[serve] tls_certificate`` and ``tls_key``: read again when they were written, so that a renewed
certificate needs no start of the server, which would end streams and sessions."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final

import structlog

from cdc.config import Serve
from cdc.errors import UsageError
from cdc.log_events import LogEvent

_LOOK_S: Final = 10.0

log = structlog.get_logger("serve")


class Certificate:
    """``context`` is for all connections; new ones are greeted with the newest certificate. Raises
    ``UsageError`` for files that are none."""

    def __init__(self, serve: Serve) -> None:
        self._files = Path(serve.tls_certificate), Path(serve.tls_key)
        self.context = _empty()
        try:
            self._read = self._written()
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"serve.tls_certificate, serve.tls_key: {error.strerror or error}",
                "name PEM files that this account can read, the key without a password",
            ) from None

    async def watch(self) -> None:
        """Look for as long as the server runs."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Take the files if they were written since. While they do not belong together, as one is
        written after the other, the certificate before counts."""
        try:
            written = self._written()
            if written == self._read:
                return
            _empty().load_cert_chain(*self._files)  # what fails leaves half of it in the other
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            log.error(LogEvent.CERTIFICATE_NOT_READ, error=str(error.strerror or error))
            return
        self._read = written
        log.info(LogEvent.CERTIFICATE_READ)

    def _written(self) -> tuple[tuple[int, int, int], ...]:
        found = [file.stat() for file in self._files]
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


def _empty() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
