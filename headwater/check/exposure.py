"""What a configuration leaves open: secrets and metrics that others can read, connections that
anybody between can read or change. Asks nobody but the file system."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from cdc.config import Config, Kafka, OpenSearch, Postgres, Redis
from cdc.config.faults import place
from cdc.config.variables import is_open, secret_files
from cdc.errors import HeadwaterError
from cdc.source.postgres import connection_parameters
from cdc.sslmode import is_here, unverified_mode
from headwater.check.finding import Finding

_SECRET: Final = re.compile(r"(?i)(?!.*_file$).*(password|secret|token|access[._]?key)")
"""A setting that ends in ``_file`` names where the secret is."""
_IN_CONNINFO: Final = re.compile(r"(?i)\bpassword\s*=\s*(?!\$\{)[^\s&]")
_KEYS: Final = {("source", "hash_keys"), ("source", "encryption_keys")}
_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_]\w*\}")
_ENCRYPTED: Final = {"http": "https", "redis": "rediss"}
_VERIFIED: Final = "verify-full"
_UNVERIFIED: Final = {"verify-ca": "does not compare the host name"}


def readable_secrets(path: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """A warning where every account of the machine can read a file that holds secrets. ``path`` was
    read and parsed before."""
    document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    found = list(_secrets(document, ()))
    if found and (mode := _mode(path)) & stat.S_IROTH:
        yield Finding(
            "warning",
            "configuration",
            f"every account of this machine can read {path} (mode {mode:04o}), which holds "
            f"{', '.join(found)}",
            f"run `chmod 600 {path}`, or take the secret from the environment: ${{NAME}}",
        )
    for file in dict.fromkeys(secret_files(document, environ)):
        if is_open(file):
            yield Finding(
                "warning",
                "configuration",
                f"every account of this machine can read the secret in {file} "
                f"(mode {_mode(file):04o})",
                f"run `chmod 400 {file}`",
            )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_metrics(config: Config) -> Iterator[Finding]:
    """A warning for each process whose metrics other machines can read."""
    for setting, address in config.metrics:
        if address and not is_here(address.rpartition(":")[0].strip("[]")):
            yield Finding(
                "warning",
                "metrics",
                f"metrics.{setting} = {address!r} can be reached from other machines: nothing is "
                "encrypted and nobody has to sign in",
                "listen on 127.0.0.1, or let only Prometheus and the orchestrator reach the port",
            )


def _secrets(node: Any, at: tuple[str, ...]) -> Iterator[str]:
    """The places of values that are secrets, or hold one, and stand in the file itself."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _secrets(value, (*at, name))
    elif isinstance(node, list):
        for value in node:
            yield from _secrets(value, at)
    elif isinstance(node, str) and node and _holds_secret(at, node):
        yield place(at)


def _holds_secret(at: tuple[str, ...], value: str) -> bool:
    name = at[-1]
    if at[:2] == ("source", "columns"):  # names of columns, each with what is done to its values
        return False
    if _SECRET.match(name) or at[:2] in _KEYS:
        return bool(_VARIABLE.sub("", value))
    try:
        password = urlsplit(value).password or ""
    except ValueError:
        password = ""
    return bool(_VARIABLE.sub("", password) or _IN_CONNINFO.search(value))


def open_connections(config: Config) -> Iterator[Finding]:
    """A warning for each server elsewhere that is reached without TLS, or whose certificate is not
    checked; and for a key that others can read."""
    yield from _of_kafka(config.kafka)
    databases = {"source.dsn": config.source.dsn, "apply.state_dsn": config.apply.state_dsn}
    for name, store in config.stores.items():
        section = f"stores.{name}"
        if isinstance(store, OpenSearch) and not store.verify_certs:
            hint = f"remove it, and name the CA in {section}.ssl_ca_location"
            yield _unchecked(f"{section}.verify_certs = false", hint)
        elif isinstance(store, Redis) and "none" in parse_qs(urlsplit(store.url).query).get(
            "ssl_cert_reqs", ()
        ):
            hint = f"remove it, and name the CA in {section}.ssl_ca_location"
            yield _unchecked(f"{section}.url has ssl_cert_reqs=none", hint)
        elif isinstance(store, OpenSearch | Redis):
            yield from _plain_url(f"{section}.url", store.url)
        elif isinstance(store, Postgres):
            databases[f"{section}.dsn"] = store.dsn
    for setting, dsn in databases.items():
        if dsn and (said := _sslmode(dsn)):
            yield _unchecked(f"{setting}: {said}", f"add sslmode=verify-full to {setting}")


def _of_kafka(kafka: Kafka) -> Iterator[Finding]:
    hosts = [
        one.strip().rpartition(":")[0].strip("[]") for one in kafka.bootstrap_servers.split(",")
    ]
    protocol = kafka.security_protocol
    if protocol.endswith("PLAINTEXT") and not all(map(is_here, hosts)):
        hint = "set it to SASL_SSL or SSL, and name the CA in kafka.ssl_ca_location"
        yield _unchecked(f'kafka.security_protocol = "{protocol}"', hint)
    if protocol.endswith("SSL") and not kafka.ssl_check_hostname:
        yield _unchecked("kafka.ssl_check_hostname = false", "remove it")
    key = Path(kafka.ssl_key_location)
    if kafka.ssl_key_location and is_open(key):
        message = f"every account of this machine can read the key in {key} (mode {_mode(key):04o})"
        yield Finding("warning", "configuration", message, f"run `chmod 400 {key}`")


def _plain_url(setting: str, url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if parts.scheme in _ENCRYPTED and not is_here(parts.hostname or ""):
        scheme = _ENCRYPTED[parts.scheme]
        section = setting.removesuffix(".url")
        hint = f"write {scheme}:// and name the CA in {section}.ssl_ca_location"
        yield _unchecked(f"{setting} is {parts.scheme}://, without TLS", hint)


def _unchecked(what: str, hint: str) -> Finding:
    message = (
        f"{what}: anyone on the network path can read and change the data, including passwords"
    )
    return Finding("warning", "TLS", message, hint)


def _sslmode(dsn: str) -> str:
    """What a connection to a server elsewhere does without; empty if that is nothing."""
    try:
        given = connection_parameters(dsn)
    except HeadwaterError:  # told where it is used
        return ""
    mode = unverified_mode(given)
    if mode in ("", _VERIFIED):
        return ""
    return f"sslmode is {mode}, which {_UNVERIFIED.get(mode, 'checks no certificate')}"
