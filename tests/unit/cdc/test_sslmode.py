"""Which connections are encrypted though their connection string says nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdc.source.postgres import connection_parameters
from jobs.sinks.postgres.client import _parameters as of_store
from jobs.state.server.connection import _parameters as of_state

VARIABLES = ("PGSSLMODE", "PGSERVICE", "PGSSLROOTCERT", "PGHOST", "PGHOSTADDR")
Parameters = Callable[[str], dict[str, Any]]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "parameters",
    [connection_parameters, of_store, lambda dsn: of_state(dsn, "apply")],
    ids=["source", "store", "state"],
)
@pytest.mark.parametrize(
    ("dsn", "mode"),
    [
        ("host=db", "require"),
        ("postgresql://10.0.0.7:5432/shop", "require"),
        ("host=localhost,db", "require"),
        ("host=localhost hostaddr=10.0.0.7", "require"),
        ("host=db sslmode=disable", "disable"),
        ("host=db sslmode=prefer", "prefer"),
        ("host=db sslmode=verify-full", "verify-full"),
        ("host=db sslrootcert=system", None),
        ("service=shop", None),
        ("host=db hostaddr=127.0.0.1", None),
        ("host=127.0.0.1,::1,localhost", None),
        ("host=/run/postgresql", None),
        ("dbname=shop", None),
    ],
)
def test_another_machine_is_reached_by_tls(parameters: Parameters, dsn: str, mode: str) -> None:
    assert parameters(dsn).get("sslmode") == mode


@pytest.mark.parametrize(
    ("variable", "value", "dsn", "mode"),
    [
        ("PGSSLMODE", "allow", "host=db", None),
        ("PGSERVICE", "shop", "host=db", None),
        ("PGHOST", "db", "dbname=shop", "require"),
        ("PGHOSTADDR", "10.0.0.7", "host=localhost", "require"),
        ("PGHOST", "db", "host=localhost", None),
    ],
)
def test_the_environment_counts_as_libpq_counts_it(
    variable: str, value: str, dsn: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert connection_parameters(dsn).get("sslmode") == mode
