"""What ``headwater check`` says of secrets that others can read, and of unchecked certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import parse_config
from headwater.check.exposure import open_connections, open_metrics, readable_secrets

FILE = """
[source]
name = "shop"
dsn = "{dsn}"
tables = ["public.*"]
[kafka]
bootstrap_servers = "localhost:9092"
{more}
"""


@pytest.mark.parametrize(
    ("dsn", "more", "held"),
    [
        ("postgresql://cdc:pw@db/shop", "", "source.dsn"),
        ("host=db password=pw", "", "source.dsn"),
        ("postgresql://db/shop", 'sasl_password = "pw"', "kafka.sasl_password"),
        (
            "postgresql://cdc:${PW}@db/shop",
            '[apply.spark]\n"spark.hadoop.fs.s3a.secret.key" = "pw"',
            'apply.spark."spark.hadoop.fs.s3a.secret.key"',
        ),
        (
            "postgresql://db/shop",
            '[source.hash_keys]\na = "${PW}"\nb = "pw"',
            "source.hash_keys.b",
        ),
        ("host=db password=${PW}", '[stores.c]\nurl = "redis://:pw@c/0"', "stores.c.url"),
    ],
)
def test_a_file_with_a_secret_that_everybody_can_read_is_remarked(
    tmp_path: Path, dsn: str, more: str, held: str
) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(FILE.format(dsn=dsn, more=more), encoding="utf-8")
    path.chmod(0o644)
    (found,) = readable_secrets(path)
    assert found.level == "warning"
    assert found.message.endswith(f"(mode 0644), which holds {held}")
    assert "pw" not in found.message
    path.chmod(0o640)
    assert list(readable_secrets(path)) == []


def test_a_file_without_a_secret_may_be_read(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    more = 'sasl_password = "${PW}"\n[stores.c]\nurl = "redis://:${PW}@c/0"\n'
    more += '[source.columns."public.users"]\npassword = "exclude"\ntoken = "mask"\n'
    more += '[alerts]\nwebhook = "https://alarms.example"\nsecret_file = "/etc/headwater/webhook"'
    path.write_text(FILE.format(dsn="postgresql://db/shop", more=more), encoding="utf-8")
    path.chmod(0o644)
    assert list(readable_secrets(path)) == []


def test_a_secret_of_its_own_file_is_for_one_account(tmp_path: Path) -> None:
    path, secret = tmp_path / "headwater.toml", tmp_path / "password"
    path.write_text(FILE.format(dsn="host=db password=${PW}", more=""), encoding="utf-8")
    secret.write_text("pw", encoding="utf-8")
    secret.chmod(0o644)
    (found,) = readable_secrets(path, {"PW_FILE": str(secret)})
    assert found.level == "warning"
    assert (
        found.message
        == f"every account of this machine can read the secret in {secret} (mode 0644)"
    )
    secret.chmod(0o440)
    assert list(readable_secrets(path, {"PW_FILE": str(secret)})) == []


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("", False),
        ("9464", False),
        ("127.0.0.1:9464", False),
        ("localhost:9464", False),
        ("[::1]:9464", False),
        ("0.0.0.0:9464", True),
        ("[::]:9464", True),
        ("10.0.0.7:9464", True),
        ("metrics.example:9464", True),
    ],
)
@pytest.mark.parametrize("process", ["capture", "apply"])
def test_metrics_that_other_machines_reach_are_remarked(
    address: str, warned: bool, process: str
) -> None:
    raw: dict[str, Any] = {
        "source": {"name": "shop", "dsn": "host=localhost", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:9092"},
        "metrics": {process: address},
    }
    found = list(open_metrics(parse_config(raw, {}, Path("/"))))
    assert [one.level for one in found] == (["warning"] if warned else [])
    assert all(f"metrics.{process}" in one.message and one.hint for one in found)


def _warned(source: str, more: dict[str, Any], kafka: dict[str, Any] | None = None) -> list[str]:
    raw: dict[str, Any] = {
        "source": {"name": "shop", "dsn": source, "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "localhost:9092", **(kafka or {})},
        **more,
    }
    findings = list(open_connections(parse_config(raw, {}, Path("/"))))
    assert all(one.level == "warning" and one.hint for one in findings)
    return [one.message.partition(": anyone on")[0] for one in findings]


@pytest.mark.parametrize(
    ("dsn", "mode"),
    [
        ("postgresql://db/shop", "require"),
        ("host=db sslmode=require", "require"),
        ("postgresql://127.0.0.1,db/shop", "require"),
        ("service=db host=db", "prefer"),
        ("host=localhost", ""),
        ("postgresql:///shop?host=/run/postgresql", ""),
        ("host=db sslmode=verify-full sslrootcert=system", ""),
        ("host=db sslrootcert=system", ""),
    ],
)
def test_a_database_elsewhere_is_to_prove_who_it_is(dsn: str, mode: str) -> None:
    said = f"source.dsn: sslmode is {mode}, which checks no certificate"
    assert _warned(dsn, {}) == ([said] if mode else [])


def test_what_switches_the_check_off_is_told() -> None:
    stores = {
        "search": {"kind": "opensearch", "url": "https://s:9200", "verify_certs": False},
        "cache": {"kind": "redis", "url": "rediss://c:6379/0?ssl_cert_reqs=none"},
        "other": {"kind": "postgres", "dsn": "host=db sslmode=disable"},
        "fine": {"kind": "redis", "url": "rediss://c:6379/0"},
    }
    unchecked = {"security_protocol": "SSL", "ssl_check_hostname": False}
    assert _warned("host=localhost", {"stores": stores}, unchecked) == [
        "kafka.ssl_check_hostname = false",
        "stores.search.verify_certs = false",
        "stores.cache.url has ssl_cert_reqs=none",
        "stores.other.dsn: sslmode is disable, which checks no certificate",
    ]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
@pytest.mark.parametrize(
    ("servers", "warned"),
    [("127.0.0.1:9092", False), ("[::1]:9092, localhost:9093", False), ("k:9092", True),
     ("localhost:9092,k:9092", True)],
)  # fmt: skip
def test_kafka_elsewhere_without_tls_is_remarked(protocol: str, servers: str, warned: bool) -> None:
    kafka: dict[str, Any] = {"bootstrap_servers": servers, "security_protocol": protocol}
    if protocol.startswith("SASL"):
        kafka |= {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
    said = [f'kafka.security_protocol = "{protocol}"'] if warned else []
    assert _warned("host=localhost", {}, kafka) == said


@pytest.mark.parametrize(
    ("kind", "url", "warned"),
    [
        ("opensearch", "http://s:9200", True),
        ("opensearch", "http://user:pw@s:9200", True),
        ("opensearch", "https://s:9200", False),
        ("opensearch", "http://127.0.0.1:9200", False),
        ("redis", "redis://:pw@c:6379/0", True),
        ("redis", "rediss://c:6379/0", False),
        ("redis", "redis://localhost:6379/0", False),
        ("redis", "unix:///run/redis.sock", False),
    ],
)
def test_a_store_elsewhere_without_tls_is_remarked(kind: str, url: str, warned: bool) -> None:
    found = _warned("host=localhost", {"stores": {"s": {"kind": kind, "url": url}}})
    scheme = url.partition(":")[0]
    assert found == ([f"stores.s.url is {scheme}://, without TLS"] if warned else [])


def test_a_certificate_of_any_host_is_not_enough() -> None:
    said = "source.dsn: sslmode is verify-ca, which does not compare the host name"
    assert _warned("host=db sslmode=verify-ca", {}) == [said]
