"""Servers that speak TLS and ask for a password, each an account with no right beyond its part.

A password is a text that is nowhere else, so that what a run has left can be searched for it. It is
in a file, as containers are handed secrets, and can be changed while processes run.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import redis
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stack import servers
from stack.ports import HOST, free_port
from stack.postgres import client_binaries
from tests.support.servers.postgres import fresh_database
from tests.support.servers.tls import Fronts

NAME: Final = "db.headwater.test"
"""What clients call PostgreSQL, so that it is no server of loopback to them."""
_SCRAM: Final = "SCRAM-SHA-512"
TABLES: Final = (
    "create schema app",
    """create table app.customers (id int primary key, name text, ssn text,
       label text generated always as (name || '#') stored,
       risk text generated always as (ssn || '!') stored)""",
    "insert into app.customers (id, name, ssn) select i, 'n' || i, 's' || i"
    " from generate_series(1, 9) i",
    "create table app.orders (id int primary key, customer int, paid numeric(8,2), card text)",
    "insert into app.orders select i, 1 + i % 9, i, 'c' || i from generate_series(1, 20) i",
    "create table app.visits (id int primary key, customer int, ip text) partition by range (id)",
    "create table app.visits_1 partition of app.visits for values from (0) to (1000)",
    "insert into app.visits select i, 1 + i % 9, 'ip' from generate_series(1, 30) i",
)
"""Of an application: three tables have a column that is to be excluded, one is partitioned."""


def run_by_a_dba(script: str, database: str) -> None:
    """A script of ours, by psql, as a superuser; it says nothing."""
    psql = [str(client_binaries() / "psql"), "-X", "-q", database]
    ran = subprocess.run(psql, input=script, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def ask(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """What the last of them gives."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True, slots=True)
class Secrets:
    """By the variable that is in the configuration; ``past`` are those that hold no more."""

    home: Path
    now: dict[str, str] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)

    def make(self, variable: str, value: str = "") -> str:
        """Another one; the file is whole at any moment."""
        if variable in self.now:
            self.past.append(self.now[variable])
        self.now[variable] = value or secrets.token_hex(16)
        fresh = self.file(variable).with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(self.now[variable], encoding="utf-8")
        fresh.replace(self.file(variable))
        return self.now[variable]

    def file(self, variable: str) -> Path:
        return self.home / variable

    @property
    def environment(self) -> dict[str, str]:
        return {f"{name}_FILE": str(self.file(name)) for name in self.now}

    @property
    def all(self) -> list[str]:
        return [*self.now.values(), *self.past]


@dataclass(frozen=True, slots=True)
class Roles:
    """Of PostgreSQL; ``source`` and ``store`` are the two databases as a superuser sees them, and
    ``port`` is where their server speaks TLS."""

    capture: str
    writer: str
    nobody: str
    source: str
    store: str
    port: int
    certificate: Path

    def dsn(self, database: str, role: str, password: str) -> str:
        """By TLS, with the server's name checked."""
        return make_conninfo(
            host=NAME, hostaddr=HOST, port=self.port, dbname=conninfo_to_dict(database)["dbname"],
            user=role, password=password, sslmode="verify-full", sslrootcert=str(self.certificate),
        )  # fmt: skip

    def end_sessions(self, role: str) -> int:
        """Those that are open; how many there were."""
        query = f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
        return len(ask(self.source, query))


@contextmanager
def roles(postgres: str, prefix: str, fronts: Fronts) -> Iterator[Roles]:
    """Roles that the server asks for a password, and two databases that are open to nobody. The
    roles that capture and write have to be made; ``nobody`` is there, its password is its name."""
    capture, writer, nobody = (f"{prefix}_{what}" for what in ("capture", "writer", "nobody"))
    ((rules,),) = ask(postgres, "show hba_file")
    before = Path(rules).read_text(encoding="utf-8")
    port = int(conninfo_to_dict(postgres)["port"] or 0)
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
            front = fronts.postgres(port)
            yield Roles(capture, writer, nobody, source, store, front, fronts.certificate)
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


@dataclass(frozen=True, slots=True)
class Broker:
    """``secured`` is where accounts sign in, ``open`` where whoever comes may do everything."""

    secured: str
    open: str


@contextmanager
def broker(
    home: Path, fronts: Fronts, user: str, password: str, views: Iterable[str]
) -> Iterator[Broker]:
    """A broker of its own, that lets ``user`` do what docs/kafka.md says, with the source of that
    name and these views."""
    store, store_password = home / "broker.p12", secrets.token_hex(8)
    _write_key_store(fronts, store, store_password)
    secured = f"{HOST}:{free_port(set())}"
    settings = {
        "listeners": f"TLS://{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SASL_SSL",
        "listener.name.tls.sasl.enabled.mechanisms": _SCRAM,
        "listener.name.tls.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.tls.ssl.keystore.type": "PKCS12",
        "listener.name.tls.ssl.keystore.location": str(store),
        "listener.name.tls.ssl.keystore.password": store_password,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    try:
        opened = servers.start(home / "stack", ["kafka"], {"kafka": settings}).kafka_bootstrap
        admin = KafkaAdminClient(bootstrap_servers=opened)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, _SCRAM, password)])
        admin.create_acls(list(_permissions(user, views)))
        admin.close()
        yield Broker(secured, opened)
    finally:
        servers.purge(home / "stack")


def _write_key_store(fronts: Fronts, path: Path, password: str) -> None:
    key = load_pem_private_key(fronts.issued.private_key_pem.bytes(), None)
    (certificate, *others) = [
        load_pem_x509_certificate(one.bytes()) for one in fronts.issued.cert_chain_pems
    ]
    encryption = BestAvailableEncryption(password.encode())
    made: Any = key
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", made, certificate, others, encryption)
    )


def _permissions(user: str, views: Iterable[str]) -> Iterator[ACL]:
    """The table of docs/kafka.md."""
    topics = ResourcePattern(ResourceType.TOPIC, f"{user}.", ACLResourcePatternType.PREFIXED)
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
    groups = ResourcePattern(ResourceType.GROUP, "headwater.", ACLResourcePatternType.PREFIXED)
    letters = [ResourcePattern(ResourceType.TOPIC, f"{view}.dlq") for view in views]
    allowed = {
        **dict.fromkeys(
            [topics, *letters],
            ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE"),
        ),
        cluster: ("IDEMPOTENT_WRITE",),
        groups: ("READ", "DELETE"),
    }
    for resource, operations in allowed.items():
        for operation in operations:
            yield ACL(
                f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, resource
            )


def set_redis_user(client: Any, user: str, password: str) -> None:
    """It has this password alone."""
    client.acl_setuser(user, enabled=True, reset=True, passwords=[f"+{password}"], keys=["*"],
                       categories=["+@all", "-@admin", "-@dangerous"],
                       commands=["+info"])  # fmt: skip


@contextmanager
def redis_user(url: str, user: str, password: str) -> Iterator[Any]:
    """An account of Redis that has what docs/deploy.md says; a client that may do everything."""
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    try:
        set_redis_user(client, user, password)
        yield client
    finally:
        client.acl_deluser(user)
        client.close()
