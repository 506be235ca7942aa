"""Databases of a test's own in a PostgreSQL that runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors, sql

from tests.support.waiting import wait_until


@contextmanager
def fresh_database(postgres: str) -> Iterator[str]:
    """DSN of a fresh database, dropped with its replication slots at the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield postgres.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        _drop_slots(connection, name)
        drop = sql.SQL("drop database {} with (force)")
        connection.execute(drop.format(sql.Identifier(name)))


def _drop_slots(connection: psycopg.Connection[tuple[object, ...]], database: str) -> None:
    """A slot in use is dropped when whoever reads it has been ended: asked until none is left."""

    def none_left() -> bool:
        connection.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots"
            " where database = %s and active_pid is not null",
            [database],
        )
        try:
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = %s and active_pid is null",
                [database],
            )
        except (errors.ObjectInUse, errors.UndefinedObject):
            return False  # taken again, or gone, since the query looked
        left = connection.execute(
            "select 1 from pg_replication_slots where database = %s", [database]
        )
        return left.fetchone() is None

    wait_until(none_left, f"the slots of {database} to be dropped")
