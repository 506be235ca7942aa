"""Whom clients of stores trust: one answer for those that check a store and those that fill it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from cdc.config.registry import Registry
from cdc.config.stores import Store
from cdc.errors import ConfigError


def certificates(path: str) -> str:
    """The text of a PEM file of certificates, for clients on other machines too; empty without a
    file. Raises ``ConfigError``."""
    if not path:
        return ""
    try:
        text = Path(path).read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (OSError, ValueError) as error:
        reason = "no certificates in PEM"
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            reason = error.strerror or "cannot be read"
        raise ConfigError(f"ssl_ca_location: {path}: {reason}", "name a PEM file") from None
    return text


def client_context(authorities: str, *, verified: bool = True) -> ssl.SSLContext:
    """Trusts who signed with one of these certificates (PEM); without any, whom the system trusts.
    Not ``verified``, it trusts everybody."""
    context = ssl.create_default_context(cadata=authorities or None)
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def registry_problems(registry: Registry | None) -> list[str]:
    """What is wrong with the file that ``[events.registry]`` names."""
    try:
        certificates(registry.ssl_ca_location if registry else "")
    except ConfigError as error:
        return [f"events.registry.{error}"]
    return []


def store_problems(stores: Mapping[str, Store]) -> list[str]:
    """What is wrong with the files that stores name."""
    problems = []
    for name, store in stores.items():
        try:
            certificates(getattr(store, "ssl_ca_location", ""))
        except ConfigError as error:
            problems.append(f"stores.{name}.{error}")
    return problems
