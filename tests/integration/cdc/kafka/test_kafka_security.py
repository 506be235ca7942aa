"""A broker that wants a password and speaks TLS, and all three clients on it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from kafka.admin import KafkaAdminClient, UserScramCredentialUpsertion
from structlog.testing import capture_logs

from cdc.config import load_config
from cdc.kafka.broker import Broker
from cdc.kafka.security import Security
from jobs.spark.java import find_java
from jobs.without_mirrors.views import apply_views
from stack import servers
from stack.ports import HOST, free_port
from tests.support.commands.deployment import Deployment
from tests.support.servers.lent_jvm import Lender
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER = "shop"
PASSWORD = "p\"a\\s s;'w{0}#"  # all that a JAAS line, TOML or a format string may trip over
_STORE_PASSWORD = "only-for-this-test"


class Secured(NamedTuple):
    """A broker's listeners, and the certificate of the one that speaks TLS; where it lives, and
    with which settings."""

    scram: str
    plain_tls: str
    open: str
    certificate: Path
    home: Path
    settings: dict[str, str]

    def admit(self, user: str, password: str) -> None:
        """It has this password alone."""
        admin = KafkaAdminClient(bootstrap_servers=self.open)
        credentials = UserScramCredentialUpsertion(user, "SCRAM-SHA-512", password)
        admin.alter_user_scram_credentials([credentials])
        admin.close()

    def restart(self) -> None:
        """Every client has to connect again."""
        servers.kill(self.home, "kafka")
        servers.start(self.home, ["kafka"], {"kafka": self.settings})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("secured")
    certificate, store = _certificate(home)
    first = free_port(set())
    ports = first, free_port({first})
    scram, plain_tls = (f"{HOST}:{port}" for port in ports)
    login = "org.apache.kafka.common.security"
    settings = {
        "listeners": f"SCRAM://{scram},TLS://{plain_tls}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SCRAM:SASL_PLAINTEXT,TLS:SASL_SSL",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": (
            f"{login}.scram.ScramLoginModule required;"
        ),
        "listener.name.tls.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.tls.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_{USER}="plain-password";'
        ),
        "listener.name.tls.ssl.keystore.type": "PKCS12",
        "listener.name.tls.ssl.keystore.location": str(store),
        "listener.name.tls.ssl.keystore.password": _STORE_PASSWORD,
    }
    try:
        opened = servers.start(home / "stack", ["kafka"], {"kafka": settings}).kafka_bootstrap
        broker = Secured(scram, plain_tls, opened, certificate, home / "stack", settings)
        broker.admit(USER, PASSWORD)
        yield broker
    finally:
        servers.purge(home / "stack")


def _certificate(home: Path) -> tuple[Path, Path]:
    """A certificate for the loopback address that signs itself, and the key store with its key."""
    store, certificate = home / "broker.p12", home / "ca.pem"
    keytool = [str(find_java().parent / "keytool"), "-storepass", _STORE_PASSWORD]
    keytool += ["-keystore", str(store), "-alias", "broker"]
    for command in (
        ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", f"san=ip:{HOST}"],
        ["-exportcert", "-rfc", "-file", str(certificate)],
    ):
        subprocess.run([*keytool[:1], command[0], *keytool[1:], *command[1:]], check=True)
    return certificate, store


@pytest.fixture
def shop(
    tmp_path: Path, database: str, secured: Secured, source_name: str, lender: Lender
) -> Deployment:
    deployment = Deployment(tmp_path, source_name, database, secured.scram, jvm=lender)
    deployment.environment = {"SHOP_PASSWORD": PASSWORD}
    deployment.extra = _options(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password="${SHOP_PASSWORD}",
    )
    deployment.execute("create table a (id int primary key)", "insert into a values (1), (2)")
    return deployment


def _options(**options: str) -> str:
    """Lines of ``[kafka]``, where ``Deployment.extra`` goes on."""
    return "".join(f'{name} = "{value}"\n' for name, value in options.items())


_LAKE = """
[stores.lake]
kind = "delta"
path = "./lake"
[views.copy]
store = "lake"
key = ["id"]
sql = "select id from a"
"""


_DIRECT = """
[tables."public.b"]
mirror = false
[views.direct]
store = "lake"
key = ["id"]
sql = "select id from b"
"""


def _published(shop: Deployment, security: Security) -> int:
    with Broker(shop.bootstrap, security) as broker:
        ends = broker.end_offsets([f"{shop.name}.public.a"])
    return sum(ends[f"{shop.name}.public.a"].values())


def _command(shop: Deployment) -> str:
    """``headwater apply``; what it said."""
    applied = shop.run("apply", "copy", "--available-now")
    assert applied.returncode == 0, applied.stderr
    return applied.stdout + applied.stderr


def _through_every_client(
    shop: Deployment, security: Security, apply: Callable[[Deployment], str] = _command
) -> None:
    """Rows and changes reach Kafka and Spark, and the offsets that Spark committed are read."""
    shop.extra += _LAKE
    assert shop.run("check").returncode == 0
    shop.init()
    with shop.running("capture"):
        shop.execute("insert into a values (3)")
        wait_until(lambda: _published(shop, security) >= 3, "the insert to be published")
    applied = apply(shop)
    lag = shop.run("lag", "--json")
    assert [view["behind_records"] for view in json.loads(lag.stdout)["views"]] == [0, 0]
    said = applied + lag.stdout + shop.log("capture")
    assert security.sasl_password.get_secret_value() not in said


def test_every_client_signs_in_with_scram(shop: Deployment) -> None:
    security = Security(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password=PASSWORD,  # type: ignore[arg-type]
    )
    _through_every_client(shop, security)


def test_a_password_that_is_changed_needs_no_restart(
    shop: Deployment, secured: Secured, tmp_path: Path
) -> None:
    """Capture and apply, with a view over mirrors and one without, sign in with what the file has
    when the broker that knew them is gone."""
    user, secret = f"{shop.name}_user", tmp_path / "password"
    secured.admit(user, "before")
    secret.write_text("before")
    shop.environment = {"SHOP_PASSWORD_FILE": str(secret)}
    shop.extra = _options(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=user,
        sasl_password="${SHOP_PASSWORD}",
    )
    shop.extra += f"[apply]\nretry_s = 5\n{_LAKE}{_DIRECT}"
    shop.execute("create table b (id int primary key)", "insert into b values (1)")
    shop.init()

    def applied() -> bool:
        return shop.run("wait", "copy", "direct", "--timeout", "15").returncode == 0

    with shop.running("capture") as capture, shop.running("apply") as apply:
        wait_until(applied, "both views to be built", 180)
        secured.admit(user, "after")
        secret.write_text("after")
        secured.restart()
        shop.execute("insert into a values (3)", "insert into b values (3)")
        wait_until(applied, "the inserts to be applied", 120)
        assert (capture.poll(), apply.poll()) == (None, None), shop.log("capture")


def test_every_client_speaks_tls_to_a_broker_whose_certificate_is_named(
    shop: Deployment, secured: Secured, spark: SparkSession
) -> None:
    def apply(shop: Deployment) -> str:
        """In the session's Spark: to start another takes ten seconds."""
        with capture_logs() as said:
            failed = apply_views(spark, load_config(shop.config), ["copy"], threading.Event(), True)
        assert failed == {}
        return str(said)

    shop.bootstrap = secured.plain_tls
    options = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password": "plain-password",
        "ssl_ca_location": str(secured.certificate),
    }
    shop.extra = _options(**options)
    _through_every_client(shop, Security.model_validate(options), apply)


WRONG = {
    "a wrong password": (
        {"sasl_password": "wr0ng-s3cret"},
        "Check kafka.sasl_username and kafka.sasl_password",
    ),
    "another mechanism": ({"sasl_mechanism": "PLAIN"}, "kafka.sasl_mechanism"),
    "no password": ({}, "kafka.security_protocol"),
    "TLS where there is none": ({"security_protocol": "SASL_SSL"}, "kafka.security_protocol"),
}


REFUSED = (
    ("check", "a wrong password"),
    *(("init", what) for what in WRONG),
    ("capture", "no password"),
)


def test_what_the_broker_refuses_is_one_fault_with_the_way_out(shop: Deployment) -> None:
    right = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }
    for verb, what in REFUSED:
        changed, hint = WRONG[what]
        shop.extra = ""
        if changed:
            shop.environment = {name.upper(): value for name, value in (right | changed).items()}
            shop.extra = _options(**{name: f"${{{name.upper()}}}" for name in right})
        shop.extra += "[capture]\nreconnect_s = 0.1\n"
        done = shop.run(verb)
        assert done.returncode == 1, (verb, what, done.stderr)
        assert "Traceback" not in done.stderr
        assert "wr0ng-s3cret" not in done.stdout + done.stderr
        if verb != "check":  # which is a table
            *waited, fault, way_out = done.stderr.splitlines()
            assert all("reconnecting" in line for line in waited), waited
            assert fault.startswith(f"error: Kafka at {shop.bootstrap}: "), fault
            assert way_out.startswith("  hint: ")
            assert hint in way_out, (verb, what)


def test_a_broker_whose_certificate_nobody_vouches_for_is_refused(
    shop: Deployment, secured: Secured
) -> None:
    shop.bootstrap = secured.plain_tls
    shop.extra = _options(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username=USER,
        sasl_password="plain-password",
    )
    done = shop.run("init")
    assert done.returncode == 1
    assert "kafka.ssl_ca_location" in done.stderr
