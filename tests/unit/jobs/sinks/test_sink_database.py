"""What PostgreSQL says when it lets nobody in, as a line of ours: those of the tests trust all."""

from __future__ import annotations

import psycopg
import pytest

from cdc.errors import RetryableError, SinkError
from jobs.sinks.postgres.client import Database

DSN = "host=db.example port=5433 dbname=views user=writer password=hunter2"


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (
            'FATAL:  password authentication failed for user "writer"',
            SinkError,
            "refused the connection: password authentication failed. Check user and password",
        ),
        (
            'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "writer"',
            SinkError,
            "refused the connection: pg_hba.conf. Allow this host, user and database",
        ),
        (
            'FATAL:  role "writer" does not exist',
            SinkError,
            "refused the connection: role does not exist. Run `CREATE ROLE",
        ),
        (
            'FATAL:  database "views" does not exist',
            SinkError,
            "refused the connection: database does not exist. Run `CREATE DATABASE",
        ),
        (
            'FATAL:  user "writer" does not exist',  # a server that is like PostgreSQL
            SinkError,
            "refused the connection: does not exist. Correct the store's dsn",
        ),
        (
            "FATAL: no more connections allowed (max_client_conn)",
            RetryableError,
            "accepts no more connections. Raise max_connections",
        ),
        (
            "FATAL:  sorry, too many clients already",
            RetryableError,
            "accepts no more connections. Raise max_connections",
        ),
        ("Connection refused", RetryableError, "does not answer. Start it"),
        ("FATAL:  the database system is starting up", RetryableError, "does not answer"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception], told: str
) -> None:
    def refuse(**_: object) -> None:
        raise psycopg.OperationalError(f"connection failed: {said}")

    monkeypatch.setattr(psycopg.Connection, "connect", refuse)
    with pytest.raises(kind, match=r"PostgreSQL at db\.example:5433/views") as error:
        Database(DSN, 0).call("v", lambda conn: conn.execute("select 1"))
    assert told in str(error.value)
    assert "hunter2" not in str(error.value)
