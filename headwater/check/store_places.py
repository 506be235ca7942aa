"""What a store's ``prepare`` would refuse of its place: asked of the store, and nothing is left
there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cdc.config import Config, Delta, OpenSearch, Postgres, Redis
from cdc.errors import HeadwaterError, SinkError, ViewError
from headwater.check.finding import Finding

if TYPE_CHECKING:
    from cdc.config import Store

_PRIMARY = "master"


def ask_redis(store: Redis) -> None:
    """Raise ``HeadwaterError`` for one that does not let us in, has no such database, or takes no
    writes."""
    from jobs.sinks.redis.client import Keyspace
    from jobs.sinks.redis.sink import address_of

    with closing(Keyspace(address_of(store, 0.0))) as keyspace:
        keyspace.call(lambda client: client.exists("headwater"))
        if store.cluster:
            return
        role = _PRIMARY
        with suppress(SinkError):  # a user who may not ask
            role = str(keyspace.call(_role))
        if role != _PRIMARY:
            raise SinkError(
                f"it is a {role}, which accepts no writes", "name the primary in its url"
            )


def _role(client: Any) -> Any:
    return client.info("replication").get("role", _PRIMARY)


def ask_folder(folder: Path) -> None:
    """Raise ``SinkError`` where no folder can be made in one that is there: of ``/proc``, or a file
    system that is read-only, rights alone do not tell."""
    try:
        with TemporaryDirectory(prefix=".headwater-", dir=folder):
            pass
    except OSError as error:
        raise SinkError(f"{folder}: {error.strerror}: cannot create a folder there") from error


def names_taken(config: Config, name: str) -> Iterator[Finding]:
    """Views whose name in a store, which answers, is that of something else there."""
    store = config.store(name)
    for view, declared in config.views.items():
        if declared.store != name:
            continue
        try:
            _ask_name(store, view)
        except ViewError as error:
            yield Finding("error", f"view {view}", error.message, error.hint)
        except HeadwaterError as error:  # it has just gone away, or lacks a right
            yield Finding("error", f"store {name}", error.message, error.hint)
            return


def _ask_name(store: Store, view: str) -> None:
    """Raise ``ViewError`` for a name that is somebody else's."""
    match store:
        case OpenSearch():
            from jobs.sinks.opensearch.generations import OpenSearchGenerations

            with closing(OpenSearchGenerations(store, view, 0.0)) as stored:
                stored.live()
        case Postgres():
            from jobs.sinks.postgres.generations import PostgresGenerations

            with closing(PostgresGenerations(store, view, 0.0)) as stored:
                stored.live()
        case Redis():
            from jobs.sinks.redis.generations import RedisGenerations

            with closing(RedisGenerations(store, view, 0.0)) as stored:
                stored.live()
        case Delta():
            from jobs.sinks.delta.ownership import refuse_taken

            refuse_taken(store, view)
