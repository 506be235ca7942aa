"""The SQL that a DBA runs in a PostgreSQL store: the role that writes views, and its one schema."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.config import Config, Postgres
from cdc.errors import UsageError
from cdc.source.postgres import connection_parameters, identifier
from headwater.cli.init.role_script import created, head


def store_script(config: Config, name: str, role: str) -> Iterator[str]:
    """Its lines; ``role`` is by default that of the store's dsn. Nobody is asked: the role may not
    be there yet. Raises ``UsageError`` for a store that has no roles, ``SourceError`` for a dsn
    that is no connection string."""
    store = config.stores.get(name)
    if store is None:
        known = ", ".join(config.stores) or "none"
        raise UsageError(f"no store is called {name}", f"stores of the configuration: {known}")
    if not isinstance(store, Postgres):
        raise UsageError(
            f"stores.{name} is {store.kind}: only a PostgreSQL store has a role to create",
            "give its user the rights in docs/deploy.md",
        )
    given = connection_parameters(store.dsn)
    role = role or str(given.get("user") or "")
    database = str(given.get("dbname") or given.get("user") or "")
    if not role or not database:
        raise UsageError(
            f"stores.{name}.dsn has no {'database' if role else 'user'}",
            "add one to the DSN" if role else "add one to the DSN, or pass --role",
        )
    to, schema = identifier(role), identifier(store.target_schema)
    yield from head(f"the role of store {name} needs", database, role)
    yield from created(role)
    yield f"ALTER ROLE {to} LOGIN;"
    yield "-- A batch is copied into a temporary table first."
    yield f"GRANT CONNECT, TEMPORARY ON DATABASE {identifier(database)} TO {to};"
    yield f"CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {to};"
    yield f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {to};"
