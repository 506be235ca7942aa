"""The security options of ``[kafka]``: what fits together, and what each client is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import Kafka, parse_config
from cdc.errors import ConfigError
from cdc.kafka.security import (
    for_kafka_python,
    for_librdkafka,
    for_librdkafka_elsewhere,
    for_spark,
    quoted,
)

SECRET = "s3cr3t"
SIGNED_IN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_username": "shop",
    "sasl_password": "${SHOP_PASSWORD}",
}


def kafka(base: Path = Path("/"), /, **options: Any) -> Kafka:
    raw = {
        "source": {"name": "shop", "dsn": "postgresql://", "tables": ["public.*"]},
        "kafka": {"bootstrap_servers": "broker:9093", **options},
    }
    return parse_config(raw, {"SHOP_PASSWORD": SECRET}, base).kafka


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"security_protocol": "SASL_SSL", "sasl_username": "u", "sasl_password": SECRET},
            "kafka: sasl_mechanism is missing: the listener's, PLAIN, SCRAM-SHA-256 or "
            "SCRAM-SHA-512",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "kafka: security_protocol SASL_PLAINTEXT needs sasl_username and sasl_password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": SECRET},
            "kafka: sasl_mechanism, sasl_username, sasl_password without effect: set "
            "security_protocol to SASL_SSL or SASL_PLAINTEXT, or remove",
        ),
        (
            {"security_protocol": "SSL", "sasl_username": "u"},
            "kafka: sasl_username without effect: set security_protocol to SASL_SSL, or remove",
        ),
        (
            {"ssl_ca_location": "ca.pem"},
            "kafka: ssl_ca_location without effect: set security_protocol to SSL or SASL_SSL, "
            "or remove",
        ),
        (
            {"security_protocol": "SSL", "ssl_certificate_location": "me.pem"},
            "kafka: ssl_certificate_location and ssl_key_location go together: set both",
        ),
        (
            {"security_protocol": "sasl"},
            "kafka.security_protocol: is 'sasl': did you mean SSL? known are PLAINTEXT, SSL, "
            "SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"producer": {"sasl.password": SECRET}},
            "kafka.producer.sasl.password: set kafka.sasl_password, for every client",
        ),
        (
            {"producer": {"sasl.mechanisms": "PLAIN"}},
            "kafka.producer.sasl.mechanisms: set kafka.sasl_mechanism, for every client",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca_location": "nowhere/ca.pem"},
            "kafka.ssl_ca_location: /nowhere/ca.pem: No such file or directory. Name a PEM file.",
        ),
    ],
)
def test_options_that_do_not_fit_are_one_line_with_the_way_out(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        kafka(**options)
    assert str(caught.value) == f"headwater.toml: {problem}"
    assert SECRET not in str(caught.value)


def test_the_password_comes_from_the_environment_and_shows_nowhere() -> None:
    options = kafka(**SIGNED_IN)
    assert options.sasl_password.get_secret_value() == SECRET
    assert SECRET not in repr(options) + str(options) + options.model_dump_json()


def test_each_client_is_told_the_same_in_its_own_words() -> None:
    options = kafka(**SIGNED_IN, ssl_check_hostname=False)
    assert for_librdkafka(options) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "shop",
        "sasl.password": SECRET,
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert for_kafka_python(options) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "shop",
        "sasl_plain_password": SECRET,
        "ssl_check_hostname": False,
    }
    assert for_spark("broker:9093", options) == {
        "kafka.bootstrap.servers": "broker:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="shop" password="{SECRET}";'
        ),
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_a_client_on_another_machine_is_given_what_files_hold(tmp_path: Path) -> None:
    held = {
        "ca": "-----BEGIN CERTIFICATE-----\nca\n-----END CERTIFICATE-----\n",
        "certificate": "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n",
        "key": "-----BEGIN PRIVATE KEY-----\nkey\n-----END PRIVATE KEY-----\n",
    }
    for name, text in held.items():
        (tmp_path / name).write_text(text)
    files = {f"ssl_{name}_location": str(tmp_path / name) for name in held}
    options = kafka(security_protocol="SSL", **files)
    assert for_librdkafka_elsewhere(options) == {
        "security.protocol": "SSL",
        **{f"ssl.{name}.pem": text for name, text in held.items()},
    }


def test_without_security_options_only_the_protocol_is_told() -> None:
    assert for_spark("broker:9092", kafka()) == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\", r'"a\\"'),
        ('" required x="', r'"\" required x=\""'),
        ("a;b 'c'", "\"a;b 'c'\""),
        ("a\r\nb", r'"a\r\nb"'),
    ],
)
def test_nothing_in_a_password_ends_its_string_in_the_jaas_line(value: str, line: str) -> None:
    assert quoted(value) == line


def test_pem_files_are_read_where_the_configuration_is_and_given_to_spark_whole(
    tmp_path: Path,
) -> None:
    pem = {
        "ca": "-----BEGIN CERTIFICATE-----\nca",
        "me": "-----BEGIN CERTIFICATE-----\nme",
        "key": "-----BEGIN PRIVATE KEY-----",
    }
    for name, text in pem.items():
        (tmp_path / f"{name}.pem").write_text(text)
    options = kafka(
        tmp_path,
        security_protocol="SSL",
        ssl_ca_location="ca.pem",
        ssl_certificate_location="me.pem",
        ssl_key_location="key.pem",
    )
    told = for_spark("broker:9093", options)
    assert told["kafka.ssl.truststore.type"] == told["kafka.ssl.keystore.type"] == "PEM"
    assert told["kafka.ssl.truststore.certificates"] == pem["ca"]
    assert told["kafka.ssl.keystore.certificate.chain"] == pem["me"]
    assert told["kafka.ssl.keystore.key"] == pem["key"]
    assert for_librdkafka(options)["ssl.ca.location"] == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (
            "-----BEGIN RSA PRIVATE KEY-----",
            "is not an unencrypted PKCS #8 key.*openssl pkcs8 -topk8",
        ),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----",
            "is not an unencrypted PKCS #8 key.*openssl pkcs8 -topk8",
        ),
        ("-----BEGIN CERTIFICATE-----", "holds no private key. Name a PEM file"),
    ],
)
def test_a_key_that_some_client_does_not_take_is_refused_with_the_way_out(
    tmp_path: Path, key: str, problem: str
) -> None:
    (tmp_path / "me.pem").write_text("-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.pem").write_text(key)
    with pytest.raises(ConfigError, match=rf"^headwater.toml: kafka.ssl_key.*key\.pem:? {problem}"):
        kafka(
            tmp_path,
            security_protocol="SSL",
            ssl_certificate_location="me.pem",
            ssl_key_location="key.pem",
        )
