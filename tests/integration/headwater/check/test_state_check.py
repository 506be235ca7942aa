"""What ``headwater check`` and ``headwater status`` say of the state database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc.config import load_config
from cdc.source.postgres import connect
from jobs.state.server.database import delete_state, state_server
from jobs.state.server.identity import Identity, source_identity
from stack.guardian import Guardian
from tests.support.commands.deployment import Deployment
from tests.support.commands.state_places import open_folder


@pytest.fixture
def shop(shop: Deployment, guardian: Guardian) -> Iterator[Deployment]:
    """A source whose views a state database keeps."""
    with open_folder(guardian) as folder:
        shop.extra = f'[apply]\nengine = "database"\nstate = "{folder / "views"}"\n'
        yield shop
        delete_state(load_config(shop.config))


def found(shop: Deployment, level: str) -> list[tuple[str, str]]:
    _, findings = shop.check()
    return [
        (one["message"], one["hint"]) for one in findings[level] if one["check"] == "state database"
    ]


def identity(shop: Deployment) -> Identity:
    with connect(shop.dsn) as conn:
        return source_identity(conn, shop.name)


def test_an_embedded_one_is_told_before_and_while_it_runs(shop: Deployment) -> None:
    ((message, _),) = found(shop, "ok")
    assert message.startswith("PostgreSQL 18, embedded, in ")
    assert not list(Path(load_config(shop.config).apply.state).glob("*"))  # nothing was changed
    with state_server(load_config(shop.config), identity(shop)):
        ((message, _),) = found(shop, "ok")
        assert ", kept by pid " in message


def test_an_embedded_one_of_another_source_is_an_error(shop: Deployment) -> None:
    shop.write()
    other = replace(identity(shop), system_identifier="7")
    with state_server(load_config(shop.config), other):
        ((message, hint),) = found(shop, "error")
    assert f"belongs to source {shop.name} (database {other.database}, system 7)" in message
    assert "views are then rebuilt" in hint


def test_one_of_ones_own_is_looked_at_and_not_changed(
    shop: Deployment, store_database: str
) -> None:
    shop.extra = f'[apply]\nengine = "database"\nstate_dsn = "{store_database}"\n'
    ((message, _),) = found(shop, "ok")
    assert message.startswith("PostgreSQL 18 at postgres@127.0.0.1:")
    with psycopg.connect(store_database, autocommit=True) as conn:
        row = conn.execute("select to_regnamespace('headwater')").fetchone()
        assert row == (None,)
        name = conn.info.dbname
        conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    ((message, hint),) = found(shop, "error")
    assert "is read-only" in message
    assert hint == f"Run `ALTER DATABASE {name} RESET default_transaction_read_only`."


def test_the_source_itself_and_one_that_is_away_are_errors(shop: Deployment) -> None:
    shop.extra = f'[apply]\nengine = "database"\nstate_dsn = "{shop.dsn}"\n'
    ((message, _),) = found(shop, "error")
    assert "is the source itself" in message
    shop.extra = '[apply]\nengine = "database"\nstate_dsn = "host=127.0.0.1 port=1 user=a"\n'
    ((message, hint),) = found(shop, "error")
    assert "cannot connect to PostgreSQL at a@127.0.0.1:1/a" in message
    assert "Check that PostgreSQL is running there" in hint


def test_what_the_state_database_lacks_is_told_by_the_views_that_need_it(shop: Deployment) -> None:
    """Before it is used, and while it runs. Nothing is made."""
    internal = "immutable strict language internal"
    shop.execute(
        "create type odd",
        f"create function odd_in(cstring) returns odd {internal} as 'int4in'",
        f"create function odd_out(odd) returns cstring {internal} as 'int4out'",
        "create type odd (input = odd_in, output = odd_out, like = int4)",
        "create type mood as enum ('sad')",
        "create table strange (id int primary key, o odd, m mood)",
    )
    shop.extra += (
        '[stores.cache]\nkind = "redis"\nurl = "redis://127.0.0.1:1/0"\n'
        '[views.shows]\nstore = "cache"\nkey = ["id"]\nsql = "select id, o from strange"\n'
        '[views.computes]\nstore = "cache"\nkey = ["id"]\n'
        "sql = \"select id, m from strange where o::text = '1'\"\n"
    )
    _, before = shop.check()
    with state_server(load_config(shop.config), identity(shop)) as server:
        _, told = shop.check()
        with server.connect() as conn:
            row = conn.execute("select to_regtype('types.\"public.mood\"')").fetchone()
    assert row == (None,)
    assert [one["check"] for one in told["ok"] if one["check"] == "view shows"]
    lacks = "o cannot be computed with: the state database does not have its type"
    for findings in (before, told):
        said = [one for one in findings["error"] if one["check"] == "view computes"]
        assert any(lacks in one["message"] for one in said), said
        assert said[0]["hint"].endswith("or name a PostgreSQL that has it in apply.state_dsn.")


def test_a_setting_that_has_no_effect_is_a_warning(shop: Deployment, store_database: str) -> None:
    shop.extra = f'[apply]\nengine = "delta"\nstate_dsn = "{store_database}"\n'
    assert found(shop, "warning") == [
        ("apply.state_dsn is not used", 'Set apply.engine = "database", or remove state_dsn.')
    ]


def test_status_shows_the_embedded_one(shop: Deployment, tmp_path: Path) -> None:
    home = str(tmp_path / "servers")
    shop.write()
    config = load_config(shop.config)
    assert "state database" not in shop.run("status", "--home", home).stdout
    with state_server(config, identity(shop)):
        done = shop.run("status", "--json", "--home", home)
        found = {one["name"]: one for one in json.loads(done.stdout)}["state database"]
        assert (found["state"], found["well"]) == ("running", True)
        assert re.search(r"PostgreSQL 18, \d+\.\d MB in .*, pid \d+$", found["said"])
    shown = shop.run("status", "--home", home).stdout
    assert re.search(r"state database +stopped +PostgreSQL 18, ", shown)
