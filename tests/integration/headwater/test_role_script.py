"""The role of ``headwater init --print-sql``: a DBA runs the script, and `init` needs no more."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from stack.postgres import client_binaries
from tests.support.commands.deployment import Deployment


def ask(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


@pytest.fixture
def shop(tmp_path: Path, database: str, kafka: str, source_name: str) -> Deployment:
    made = Deployment(tmp_path, source_name, database, kafka, ("app.*",))
    made.execute(
        "create schema app",
        "create table app.orders (id int primary key, total int, card text)",
        "insert into app.orders values (1, 10, 'c1'), (2, 20, 'c2')",
    )
    return made


@pytest.fixture
def roles(
    shop: Deployment, database: str, store_database: str
) -> Iterator[tuple[str, str, str, str]]:
    """Names of those that capture, read and write to the store, and of one without a right; the
    server asks each for a password."""
    names = tuple(f"{shop.name}_{what}" for what in ("capture", "reader", "writer", "nobody"))
    with psycopg.connect(database) as conn:
        found = conn.execute("show hba_file").fetchone()
    assert found is not None
    rules = Path(found[0])
    before = rules.read_text(encoding="utf-8")
    asked = "".join(f"host all {name} 127.0.0.1/32 scram-sha-256\n" for name in names)
    rules.write_text(asked + before, encoding="utf-8")
    ask(database, "select pg_reload_conf()", f"create role {names[3]} login password 'none'")
    for dsn in (database, store_database):
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        ask(
            dsn,
            f"revoke all on database {name} from public",
            "revoke all on schema public from public",
        )
        ask(dsn, f"grant connect on database {name} to {names[3]}")
    try:
        yield names  # type: ignore[misc]
    finally:
        rules.write_text(before, encoding="utf-8")
        ask(database, "select pg_reload_conf()",
            "select pg_terminate_backend(pid) from pg_stat_activity "
            f"where usename ^@ '{shop.name}_'")  # fmt: skip
        for name in names:
            for dsn in (database, store_database):
                ask(dsn, f"do $$ begin if to_regrole('{name}') is not null then "
                         f"execute 'drop owned by {name}'; end if; end $$")  # fmt: skip
            ask(database, f"drop role if exists {name}")


def run_by_a_dba(script: str, dsn: str) -> None:
    psql = [str(client_binaries() / "psql"), "-X", "-q", dsn]
    done = subprocess.run(psql, input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_publication_of_its_own_is_made_for_a_role_that_owns_no_table(
    shop: Deployment, roles: tuple[str, str, str, str], database: str
) -> None:
    capture, _, _, nobody = roles
    shop.dsn = make_conninfo(database, user=nobody, password="none")
    printed = shop.run("init", "--print-sql", "--role", capture)
    assert printed.returncode == 0, printed.stderr
    for _ in range(2):  # it can be run again
        run_by_a_dba(printed.stdout, database)
    ask(database, f"alter role {capture} password 'own'")
    shop.dsn = make_conninfo(database, user=capture, password="own")
    shop.init()
    ask(database, f"revoke select on app.orders from {capture}")
    code, found = shop.check()
    assert code == 1
    hints = [one["hint"] for one in found["error"]]
    assert any(f'GRANT SELECT ON "app"."orders" TO "{capture}"' in hint for hint in hints)
    removed = shop.run("uninstall", "--yes")
    assert removed.returncode == 0, removed.stderr


def test_what_belongs_to_the_script_is_refused_without_it(shop: Deployment) -> None:
    done = shop.run("init", "--role", "other")
    assert done.returncode == 2
    assert "add --print-sql" in done.stderr.lower()
