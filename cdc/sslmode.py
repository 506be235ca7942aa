"""Whether a connection to PostgreSQL is encrypted when its connection string does not say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

_DEFAULT: Final = "require"
_LIBPQ: Final = "prefer"
_SYSTEM: Final = "system"
"""As ``sslrootcert`` it makes libpq's own default ``verify-full``."""


def is_here(host: str) -> bool:
    """Whether only this machine sees the traffic: loopback, or a Unix socket (nothing, a path)."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def tls_default(given: Mapping[str, Any]) -> dict[str, str]:
    """``sslmode`` for connection parameters that have none, neither of their own nor in the
    environment: ``require`` if a server is on another machine, where libpq would go on in plain
    text as soon as anybody says that there is no TLS. Nothing for a service, which may have one."""
    named = given.get("sslmode") or os.environ.get("PGSSLMODE")
    service = given.get("service") or os.environ.get("PGSERVICE")
    certificate = given.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    if named or service or certificate == _SYSTEM or all(map(is_here, _hosts(given))):
        return {}
    return {"sslmode": _DEFAULT}


def unverified_mode(given: Mapping[str, Any]) -> str:
    """The ``sslmode`` by which a server on another machine is reached; empty if all are here."""
    if all(map(is_here, _hosts(given))):
        return ""
    mode = given.get("sslmode") or os.environ.get("PGSSLMODE")
    certificate = given.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    return str(mode or ("verify-full" if certificate == _SYSTEM else _LIBPQ))


def _hosts(given: Mapping[str, Any]) -> list[str]:
    """As libpq chooses: an address goes before a name."""
    for name, variable in (("hostaddr", "PGHOSTADDR"), ("host", "PGHOST")):
        if found := given.get(name) or os.environ.get(variable):
            return [one.strip() for one in str(found).split(",")]
    return [""]
