"""``${NAME}`` in a setting, from the environment or from the file that ``NAME_FILE`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import parse_config, variables
from cdc.config.variables import filled
from cdc.errors import ConfigError
from cdc.kafka.security import for_kafka_python, for_librdkafka, for_spark
from cdc.secret_values import latest
from cdc.source.postgres import connection_parameters

RAW: dict[str, Any] = {
    "source": {"name": "shop", "dsn": "host=db password=${PW}", "tables": ["public.*"]},
    "kafka": {"bootstrap_servers": "localhost:9092"},
}


def dsn(environ: dict[str, str]) -> str:
    return parse_config(RAW, environ, Path("/")).source.dsn


@pytest.mark.parametrize("content", ["s3cr3t", "s3cr3t\n", "s3cr3t\r\n"])
def test_a_value_may_be_in_a_file_with_the_end_of_its_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content.encode())
    assert dsn({"PW_FILE": str(file)}) == "host=db password=s3cr3t"


def test_the_file_is_read_again_with_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one", encoding="utf-8")
    assert dsn({"PW_FILE": str(file)}).endswith("=one")
    file.write_text("two", encoding="utf-8")
    assert dsn({"PW_FILE": str(file)}).endswith("=two")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory: make it readable"),
        (b"\n", "the file is empty: write the value into it"),
        (b"s3cr3t\xff", "not UTF-8: save it as UTF-8"),
    ],
)
def test_a_file_that_gives_nothing_is_one_line(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        dsn({"PW_FILE": str(file)})
    assert str(caught.value) == f"headwater.toml: source.dsn: PW_FILE names {file}: {reason}"
    assert "s3cr3t" not in str(caught.value)


def test_a_container_may_hand_over_secrets_that_each_of_its_accounts_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secrets" / "headwater" / "webhook"
    secret.parent.mkdir(parents=True)
    secret.write_text("whsec_" + 40 * "A", encoding="utf-8")
    secret.chmod(0o644)
    document = {"webhook": "https://alarms.example.org", "secret_file": str(secret)}
    with pytest.raises(ConfigError, match="every account of this machine can read it"):
        parse_config({**RAW, "alerts": document}, {"PW": "x"}, Path("/"))
    monkeypatch.setattr(variables, "CONTAINER_SECRETS", tmp_path / "secrets")
    parse_config({**RAW, "alerts": document}, {"PW": "x"}, Path("/"))


def test_two_values_for_a_variable_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        dsn({"PW": "s3cr3t", "PW_FILE": str(tmp_path)})
    assert "environment variables PW and PW_FILE are both set: unset one" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_value_is_no_variable_again(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("${PW}", encoding="utf-8")
    assert dsn({"PW_FILE": str(file)}) == "host=db password=${PW}"


def test_a_connection_takes_what_the_file_holds_when_it_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one", encoding="utf-8")
    given = dsn({"PW_FILE": str(file)})
    assert connection_parameters(given)["password"] == "one"
    file.write_text("two\n", encoding="utf-8")
    assert connection_parameters(given)["password"] == "two"
    file.unlink()  # as while it is replaced
    assert connection_parameters(given)["password"] == "one"


def test_new_clients_of_kafka_take_what_the_file_holds(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one", encoding="utf-8")
    signed = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
    signed |= {"sasl_username": "shop", "sasl_password": "${PW}"}
    raw = RAW | {"kafka": RAW["kafka"] | signed}
    kafka = parse_config(raw, {"PW_FILE": str(file)}, Path("/")).kafka
    file.write_text("two", encoding="utf-8")
    assert for_librdkafka(kafka)["sasl.password"] == "two"
    assert for_kafka_python(kafka)["sasl_plain_password"] == "two"
    assert 'password="two"' in for_spark("k:9092", kafka)["kafka.sasl.jaas.config"]
    assert "one" not in repr(kafka)


def test_a_server_is_not_sent_the_password_that_another_has_got(tmp_path: Path) -> None:
    names = ("SOURCE", "CACHE")
    for name in names:
        (tmp_path / name).write_text("as-delivered")
    environ = {f"{name}_FILE": str(tmp_path / name) for name in names}
    given = filled([f"${{{name}}}" for name in names], environ, (), [])

    (tmp_path / "CACHE").write_text("of the cache")
    assert [latest(value) for value in given] == ["as-delivered", "as-delivered"]
    (tmp_path / "SOURCE").write_text("of the cache")
    assert [latest(value) for value in given] == ["of the cache", "of the cache"]
