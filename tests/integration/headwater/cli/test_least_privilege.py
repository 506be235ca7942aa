"""Rights of roles that have none beyond their part: taken back, named where they lack, and enough
to remove all. ``test_secured_path`` has the whole path by such roles, and what they are refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cdc.kafka.broker import Broker
from cdc.topics import table_topic
from tests.support.commands.deployment import Deployment, done
from tests.support.servers.postgres import fresh_database
from tests.support.servers.secured import TABLES as SHARED
from tests.support.servers.secured import ask, run_by_a_dba

TABLES = (*SHARED, "create table app.cities (id int primary key)")


@dataclass(frozen=True, slots=True)
class Roles:
    """Names, which are passwords too; and the databases as a superuser sees them."""

    capture: str
    writer: str
    nobody: str
    source: str
    store: str

    def dsn(self, database: str, role: str) -> str:
        return make_conninfo(database, user=role, password=role)


@pytest.fixture(scope="module")
def roles(postgres: str) -> Iterator[Roles]:
    """The server asks each for a password, and has them in databases that are open to nobody."""
    prefix = f"r{uuid.uuid4().hex[:8]}"
    capture, writer, nobody = (f"{prefix}_{what}" for what in ("capture", "writer", "nobody"))
    ((rules,),) = ask(postgres, "show hba_file")
    before = Path(rules).read_text(encoding="utf-8")
    with ExitStack() as stack:
        source, store = (stack.enter_context(fresh_database(postgres)) for _ in range(2))
        asked = "".join(
            f"host all {name} 127.0.0.1/32 scram-sha-256\n" for name in (capture, writer, nobody)
        )
        Path(rules).write_text(asked + before, encoding="utf-8")
        ask(source, "select pg_reload_conf()", f"create role {nobody} login password '{nobody}'")
        for dsn in (source, store):
            name = conninfo_to_dict(dsn)["dbname"]
            ask(dsn, f"revoke all on database {name} from public")
            ask(dsn, f"grant connect on database {name} to {nobody}")
        try:
            yield Roles(capture, writer, nobody, source, store)
        finally:
            Path(rules).write_text(before, encoding="utf-8")
            ask(source, "select pg_reload_conf()")
            for dsn in (source, store):
                ask(dsn, "select pg_terminate_backend(pid) from pg_stat_activity "
                         f"where usename ^@ '{prefix}'")  # fmt: skip
                for name in (capture, writer, nobody):
                    ask(dsn, f"do $$ begin if to_regrole('{name}') is not null then "
                             f"execute 'drop owned by {name} cascade'; end if; end $$")  # fmt: skip
            for name in (capture, writer, nobody):
                ask(source, f"drop role if exists {name}")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, roles: Roles, kafka: str) -> Deployment:
    """A DBA has run both scripts, and ``init`` was run."""
    home = tmp_path_factory.mktemp("shop")
    name = roles.capture.partition("_")[0]
    tables = ("app.customers", "app.orders", "app.cities")
    made = Deployment(home, name, roles.source, kafka, tables)
    made.execute(*TABLES)
    configure(made, roles)
    for role, database, more in (
        (roles.capture, roles.source, ()),
        (roles.writer, roles.store, ("--store", "tables")),
    ):
        for _ in range(2):  # it can be run again
            run_by_a_dba(printed(made, roles, "--role", role, *more), database)
        ask(database, f"alter role {role} password '{role}'")
    made.dsn = roles.dsn(roles.source, roles.capture)
    made.init()
    return made


def printed(shop: Deployment, roles: Roles, *arguments: str) -> str:
    """What `init --print-sql` prints to a role without a right."""
    dsn = roles.dsn(roles.source, roles.nobody)
    other = replace(shop, home=shop.home / "nobody", dsn=dsn)
    other.home.mkdir(exist_ok=True)
    return done(other, "init", "--print-sql", *arguments)


def configure(shop: Deployment, roles: Roles) -> None:
    shop.settings = (
        'columns = { "app.customers" = { ssn = "exclude" }, "app.orders" = { card = "exclude" } }\n'
    )
    shop.extra = (
        f'[stores.tables]\nkind = "postgres"\ndsn = "{roles.dsn(roles.store, roles.writer)}"\n'
        f'target_schema = "reports"\n[apply]\nengine = "database"\nstate = "{shop.home}/state"\n'
        f'[tables."app.orders"]\nmirror = false\n[views.sales]\nstore = "tables"\nkey = ["id"]\n'
        'sql = "select id, customer, paid from app.orders"\n'
    )


def refused(dsn: str, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(errors.InsufficientPrivilege):
            ask(dsn, statement)


def test_what_was_granted_too_much_is_taken_back_and_what_lacks_is_named(
    shop: Deployment, roles: Roles
) -> None:
    ask(roles.source, f"grant select on app.orders to {roles.capture}")
    ask(shop.dsn, "select card from app.orders")
    run_by_a_dba(printed(shop, roles, "--role", roles.capture), roles.source)
    refused(shop.dsn, "select card from app.orders")
    database = conninfo_to_dict(roles.store)["dbname"]
    ask(
        roles.store,
        f"revoke temporary on database {database} from {roles.writer}",
        f"revoke all on schema reports from {roles.writer}",
        f"alter schema reports owner to {conninfo_to_dict(roles.store)['user']}",
    )
    ask(roles.source, f"revoke select on app.cities from {roles.capture}")
    code, found = shop.check()
    assert code == 1
    hints = {fault["check"]: fault["hint"] for fault in found["error"]}  # of views: none is applied
    assert f'GRANT SELECT ON "app"."cities" TO "{roles.capture}"' in hints["select"]
    ask(roles.source, *hints["select"].rstrip(".").split("; "))
    named = hints["store tables"].partition(": ")[2].rstrip(".")
    assert "GRANT USAGE, CREATE ON SCHEMA" in named
    assert "GRANT TEMPORARY ON DATABASE" in named
    ask(roles.store, *named.split("; "))
    _, found = shop.check()
    assert not {"select", "store tables"} & {fault["check"] for fault in found["error"]}


def test_what_belongs_to_the_scripts_is_refused_without_them(shop: Deployment) -> None:
    for arguments, said in (
        (("--role", "other"), "add --print-sql"),
        (("--print-sql", "--store", "nosuch"), "stores of the configuration: tables"),
        (("--print-sql", "--store", "tables", "--publication-owner", "a"), "has no publication"),
    ):
        ran = shop.run("init", *arguments)
        assert ran.returncode == 2
        assert said in ran.stderr.lower()


def test_the_role_of_capture_removes_what_it_made(shop: Deployment, roles: Roles) -> None:
    done(shop, "uninstall", "--yes")
    name = f"'headwater_{shop.name}'"
    assert ask(
        roles.source,
        f"select (select count(*) from pg_replication_slots where slot_name = {name}),"
        f" (select count(*) from pg_publication where pubname = {name}),"
        " (select count(*) from pg_namespace where nspname = 'headwater')",
    ) == [(0, 0, 0)]


def test_the_publication_may_belong_to_the_owner_of_the_tables(
    shop: Deployment, roles: Roles
) -> None:
    """Capture reads it, and says what the owner has to run to change or drop it."""
    owner = f"{roles.capture}_owner"
    other = replace(shop, home=shop.home / "owned", name=f"{shop.name}o", dsn=roles.source)
    other.home.mkdir()
    configure(other, roles)
    other.tables = ("app.customers", "app.orders")
    publication = f"headwater_{other.name}"
    with ExitStack() as stack:
        stack.callback(ask, roles.source, f"drop owned by {owner} cascade", f"drop role {owner}")
        ask(
            roles.source,
            f"create role {owner} login",
            f"grant connect on database {conninfo_to_dict(roles.source)['dbname']} to {owner}",
            f"grant usage on schema app to {owner}",
            *(f"alter table app.{one} owner to {owner}" for one in ("customers", "cities")),
        )
        of_owner = make_conninfo(roles.source, user=owner)
        options = ("--role", roles.capture, "--publication-owner", owner)
        for _ in range(2):  # it can be run again
            run_by_a_dba(printed(other, roles, *options), roles.source)
        other.dsn = roles.dsn(roles.source, roles.capture)
        other.init()
        refused(other.dsn, f"alter publication {publication} drop table app.orders")
        with other.running("capture") as capture:
            ask(roles.source, "insert into app.customers (id, name) values (50, 'streamed')")
            other.captured(capture)
            assert kept(other, "customers") == 10

            other.tables = (*other.tables, "app.cities")
            asked = other.run("table", "add", "app.cities")
            assert asked.returncode == 1, asked.stderr
            added = f'ALTER PUBLICATION "{publication}" ADD TABLE ONLY "app"."cities"'
            assert f"run: {added}; or let a superuser" in asked.stderr
            ask(of_owner, added, "insert into app.cities values (1)")
            done(other, "table", "add", "app.cities")
            ask(of_owner, "insert into app.cities values (2)")
            other.captured(capture)
            assert kept(other, "cities") >= 2

        asked = other.run("uninstall", "--yes")
        assert asked.returncode == 1, asked.stderr
        dropped = f'DROP PUBLICATION "{publication}"'
        assert f"Let {owner} run: {dropped}; then run this again" in asked.stderr
        assert other.slot("slot_name") == publication, "nothing was removed"
        ask(of_owner, dropped)
        done(other, "uninstall", "--yes")
        assert other.slot("slot_name") is None


def kept(shop: Deployment, table: str) -> int:
    """How many records the topic of a table holds."""
    topic = table_topic(shop.name, "app", table)
    with Broker(shop.bootstrap) as broker:
        return sum(broker.end_offsets([topic])[topic].values())
