"""Checks of the stores: does the place answer, without the stores' own clients.

What a store says of a view's rows is for the views; here only its address and rights count.
"""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from cdc.config import Config, Delta, OpenSearch, Postgres, Redis, Store
from cdc.errors import HeadwaterError
from cdc.routes.patterns import parse_pattern
from cdc.source.errors import place as place_of
from cdc.source.errors import translated
from cdc.source.postgres import connect, connection_parameters, identifier
from cdc.tls import certificates, client_context
from headwater.check.finding import Finding
from headwater.check.store_places import ask_folder, ask_redis, names_taken
from jobs.sinks.delta.bucket import ask_bucket
from jobs.spark.object_store import is_in_s3

_TIMEOUT_S: Final = 5.0
_STORE: Final = "{store}"
"""In a fault: the section of the store."""


_LOGIN: Final = f"check user and password of {_STORE}"
_BUSY: Final = "try again: it is there, and has too much to do or is just starting"
_HINTS: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: _LOGIN,
    HTTPStatus.FORBIDDEN: _LOGIN,
    HTTPStatus.TOO_MANY_REQUESTS: _BUSY,
    HTTPStatus.SERVICE_UNAVAILABLE: _BUSY,
}


class _Fault(NamedTuple):
    """``hint`` is empty if nothing answers there."""

    what: str
    hint: str = ""


def stores(config: Config) -> Iterator[Finding]:
    """One finding for each store of ``[stores]``."""
    for name, store in config.stores.items():
        check = f"store {name}"
        place = _place(store)
        fault = _fault(store, config.apply.spark)
        if table := "" if fault else _captured_again(config, name):
            message = f"{store.kind} at {place}: table {table} would be captured"
            hint = f"set stores.{name}.target_schema to a schema that source.tables does not choose"
            yield Finding("error", check, message, hint)
        elif fault:
            what, hint = (said.replace(_STORE, f"stores.{name}") for said in fault)
            hint = hint or f"start {store.kind}, or correct stores.{name}"
            yield Finding("error", check, f"{store.kind} at {place}: {what}", hint)
        else:
            yield Finding("ok", check, f"{store.kind} at {place}")
            yield from names_taken(config, name)


def _place(store: Store) -> str:
    match store:
        case Delta():
            return store.path
        case Postgres():
            try:
                return place_of(connection_parameters(store.dsn))
            except HeadwaterError:
                return "its dsn"
    return _address(store.url)


def _fault(store: Store, spark: Mapping[str, str]) -> _Fault | None:
    match store:
        case OpenSearch():
            return _opensearch_fault(store)
        case Redis():
            return _connection_fault(store.url, 6379) or _refused(partial(ask_redis, store))
        case Delta():
            if is_in_s3(store.path):
                return _refused(partial(ask_bucket, store.path, spark))
            return _folder_fault(store.path)
        case Postgres():
            return _database_fault(store)


def _opensearch_fault(store: OpenSearch) -> _Fault | None:
    parts = urlsplit(store.url)
    user, password = store.user or parts.username or "", store.password or parts.password or ""
    request = urllib.request.Request(_address(store.url))
    if user:
        credentials = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
    try:
        authorities = certificates(store.ssl_ca_location)
        context = client_context(authorities, verified=store.verify_certs)
        urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context).close()
    except urllib.error.HTTPError as error:
        hint = _HINTS.get(error.code, "correct {store}.url")
        return _Fault(f"HTTP {error.code} {error.reason}", hint)
    except urllib.error.URLError as error:
        return _Fault(str(getattr(error.reason, "strerror", None) or error.reason))
    except (OSError, ValueError) as error:
        return _Fault(str(error))
    return None


def _refused(ask: Callable[[], None]) -> _Fault | None:
    """What a store says against its place."""
    try:
        ask()
    except HeadwaterError as error:
        what = error.message.partition(" at ")[2] or error.message
        return _Fault(what, error.hint or f"correct the url or path of {_STORE}")
    return None


def _connection_fault(url: str, default_port: int) -> _Fault | None:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return None if Path(parts.path).exists() else _Fault("no such socket")
    try:
        address = (parts.hostname or "localhost", parts.port or default_port)
        socket.create_connection(address, _TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return _Fault(getattr(error, "strerror", None) or str(error))
    return None


def _database_fault(store: Postgres) -> _Fault | None:
    """Whether its role may do there what a view needs."""
    try:
        with connect(store.dsn) as conn, translated("asking for rights"):
            found = conn.execute(
                "select n.oid is not null, case when n.oid is null"
                " then has_database_privilege(current_database(), 'CREATE')"
                " else has_schema_privilege(n.oid, 'CREATE')"
                " and has_schema_privilege(n.oid, 'USAGE') end,"
                " has_database_privilege(current_database(), 'TEMPORARY'),"
                " current_user, current_database(), pg_is_in_recovery()"
                " from (values (1)) one left join pg_namespace n on n.nspname = %s",
                [store.target_schema],
            ).fetchone()
    except HeadwaterError as error:
        what = error.message.partition(": ")[2] or error.message
        return _Fault(*(said.replace("source.dsn", f"{_STORE}.dsn") for said in (what, error.hint)))
    assert found is not None
    there, allowed, temporary, role, database, standby = found
    if standby:
        return _Fault("it is a standby, which accepts no writes", "name the primary in {store}.dsn")
    schema, to = store.target_schema, identifier(role)
    lacking, grants = [], []
    if not allowed and there:
        lacking.append(f"USAGE or CREATE on schema {schema}")
        grants.append(f"GRANT USAGE, CREATE ON SCHEMA {identifier(schema)} TO {to}")
    elif not allowed:
        lacking.append(f"CREATE on database {database}, for schema {schema}")
        grants.append(f"CREATE SCHEMA {identifier(schema)} AUTHORIZATION {to}")
    if not temporary:
        lacking.append(f"TEMPORARY on database {database}")
        grants.append(f"GRANT TEMPORARY ON DATABASE {identifier(database)} TO {to}")
    if not lacking:
        return None
    what = f"role {role} lacks {' and '.join(lacking)}"
    return _Fault(what, f"run there, as a superuser: {'; '.join(grants)}")


def _captured_again(config: Config, name: str) -> str:
    """The table of a view, in the source's own database, that ``source.tables`` would choose."""
    store = config.store(name)
    if not isinstance(store, Postgres):
        return ""
    source, own = connection_parameters(config.source.dsn), connection_parameters(store.dsn)
    if place_of(source).partition("@")[2] != place_of(own).partition("@")[2]:
        return ""
    try:
        chosen = [parse_pattern(text) for text in config.source.tables]
        left_out = [parse_pattern(text) for text in config.source.exclude]
    except ValueError:  # told where the tables are chosen
        return ""
    for view, declared in config.views.items():
        at = store.target_schema, f"{view}@1"
        captured = any(pattern.matches(*at) for pattern in chosen)
        captured = captured and not any(pattern.matches(*at) for pattern in left_out)
        if declared.store == name and captured:
            return f"{store.target_schema}.{view}@1 of view {view}"
    return ""


def _folder_fault(path: str) -> _Fault | None:
    if "://" in path:
        return None  # Spark's own file systems reach it, this process may not
    folder = Path(path)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return _Fault(f"{folder} is not a folder", "name another one in {store}.path")
    if os.access(folder, os.W_OK | os.X_OK):
        return _refused(partial(ask_folder, folder))
    return _Fault(f"{folder} is not writable", "give this user the right, or correct {store}.path")


def _address(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
