"""How a client proves itself to Kafka, and Kafka to it: one set of options for three clients.

The options are librdkafka's, with underscores. What each client calls them stands here and
nowhere else: ``for_librdkafka`` (what produces, and what reads much), ``for_kafka_python`` (topics,
offsets, reading), ``for_spark`` (what applies).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from cdc.errors import ConfigError
from cdc.secret_values import latest

NONE: Final = SecretStr("")
FILES: Final = ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location")
_MECHANISMS: Final = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
_LIBRDKAFKA: Final = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
    "ssl_ca_location": "ssl.ca.location",
    "ssl_certificate_location": "ssl.certificate.location",
    "ssl_key_location": "ssl.key.location",
}
_KAFKA_PYTHON: Final = {
    "security_protocol": "security_protocol",
    "sasl_mechanism": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",  # for SCRAM too
    "sasl_password": "sasl_plain_password",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
}
# Java's client takes PEM itself, so that executors on other machines need no files.
_SPARK_PEM: Final = {
    "ssl_ca_location": ("truststore", "truststore.certificates"),
    "ssl_certificate_location": ("keystore", "keystore.certificate.chain"),
    "ssl_key_location": ("keystore", "keystore.key"),
}
_LOGIN: Final = "org.apache.kafka.common.security.{}LoginModule"


class Security(BaseModel):
    """The security options of ``[kafka]``. Checked: what is missing, and what has no effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    sasl_username: str = ""
    sasl_password: SecretStr = NONE
    ssl_ca_location: str = ""
    """PEM of who signed the brokers' certificates; else what each client trusts by itself."""
    ssl_certificate_location: str = ""
    ssl_key_location: str = ""
    """PEM of the client's own certificate and its key, for brokers that ask for one. The key in
    the one form that all clients take: PKCS #8 without a password."""
    ssl_check_hostname: bool = True

    @model_validator(mode="after")
    def _options_fit(self) -> Security:
        if problems := _problems(self):
            raise ValueError("; ".join(problems))
        return self


def options(security: Security) -> dict[str, str]:
    """The options that are set, secrets in the open."""
    found = {}
    for name in _LIBRDKAFKA:
        value = getattr(security, name)
        secret = isinstance(value, SecretStr)
        found[name] = latest(value.get_secret_value()) if secret else str(value)
    return {name: value for name, value in found.items() if value}


def for_librdkafka(security: Security) -> dict[str, str]:
    """Settings of confluent-kafka."""
    settings = {_LIBRDKAFKA[name]: value for name, value in options(security).items()}
    if not security.ssl_check_hostname:
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return settings


def for_librdkafka_elsewhere(security: Security) -> dict[str, str]:
    """As ``for_librdkafka``, for clients on other machines too: files are read now.

    Raises ``ConfigError`` for a file that cannot be read.
    """
    settings = for_librdkafka(security)
    for option, path in options(security).items():
        if option in FILES:
            name = _LIBRDKAFKA[option]
            del settings[name]
            settings[name.replace(".location", ".pem")] = _pem(option, path)
    return settings


def librdkafka_option(setting: str) -> str:
    """The option of ours that a librdkafka setting is, or nothing."""
    setting = "sasl.mechanism" if setting == "sasl.mechanisms" else setting
    if setting == "ssl.endpoint.identification.algorithm":
        return "ssl_check_hostname"
    return next((ours for ours, theirs in _LIBRDKAFKA.items() if theirs == setting), "")


def for_kafka_python(security: Security) -> dict[str, str | bool]:
    """Arguments of kafka-python's clients."""
    named = {_KAFKA_PYTHON[name]: value for name, value in options(security).items()}
    return {**named, "ssl_check_hostname": security.ssl_check_hostname}


def for_spark(bootstrap_servers: str, security: Security) -> dict[str, str]:
    """Options of Spark's Kafka source, for Java's client. Files are read now, on the driver.

    Raises ``ConfigError`` for a file that cannot be read, see ``file_problems``.
    """
    given = options(security)
    found = {
        "bootstrap.servers": bootstrap_servers,
        "security.protocol": security.security_protocol,
    }
    if security.sasl_mechanism:
        found["sasl.mechanism"] = security.sasl_mechanism
        found["sasl.jaas.config"] = _jaas(given)
    for name, (store, setting) in _SPARK_PEM.items():
        if name in given:
            found[f"ssl.{store}.type"] = "PEM"
            found[f"ssl.{setting}"] = _pem(name, given[name])
    if not security.ssl_check_hostname:
        found["ssl.endpoint.identification.algorithm"] = ""
    return {f"kafka.{name}": value for name, value in found.items()}


def _jaas(given: dict[str, str]) -> str:
    plain = given["sasl_mechanism"] == "PLAIN"
    module = _LOGIN.format("plain.Plain" if plain else "scram.Scram")
    user, password = quoted(given["sasl_username"]), quoted(given["sasl_password"])
    return f"{module} required username={user} password={password};"


def quoted(value: str) -> str:
    """A string of a JAAS line. Java's ``StreamTokenizer`` reads it: a backslash escapes, and a
    line's end would end the string."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(char, char) for char in value) + '"'


def file_problems(security: Security) -> list[str]:
    """What is wrong with the files, of which each client would complain in its own way."""
    given, problems = options(security), []
    for option in FILES:
        if option in given:
            try:
                _pem(option, given[option])
            except ConfigError as error:
                problems.append(str(error))
    return problems


def _pem(option: str, path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"kafka.{option}: {path}: {reason}", "name a PEM file") from None
    kind = "PRIVATE KEY" if option == "ssl_key_location" else "CERTIFICATE"
    if f"-----BEGIN {kind}-----" in text:
        return text
    if "PRIVATE KEY-----" in text and kind == "PRIVATE KEY":
        raise ConfigError(
            f"kafka.{option}: {path} is not an unencrypted PKCS #8 key, which all clients can read",
            f"convert it: `openssl pkcs8 -topk8 -nocrypt -in {path} -out NEW`",
        )
    raise ConfigError(f"kafka.{option}: {path} holds no {kind.lower()}", "name a PEM file")


def _problems(security: Security) -> list[str]:
    """What is missing for the protocol, and what it would silently leave out."""
    given = options(security)
    protocol = security.security_protocol
    problems = []
    sasl = [name for name in given if name.startswith("sasl_")]
    if protocol.startswith("SASL_"):
        if "sasl_mechanism" not in given:
            problems.append(f"sasl_mechanism is missing: the listener's, {_MECHANISMS}")
        missing = [name for name in ("sasl_username", "sasl_password") if name not in given]
        if missing:
            problems.append(f"security_protocol {protocol} needs {' and '.join(missing)}")
    elif sasl:
        wanted = "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"
        problems.append(
            f"{', '.join(sasl)} without effect: set security_protocol to {wanted}, or remove"
        )
    tls = [name for name in given if name.startswith("ssl_")]
    if tls and not protocol.endswith("SSL"):
        wanted = "SASL_SSL" if protocol.startswith("SASL") else "SSL or SASL_SSL"
        problems.append(
            f"{', '.join(tls)} without effect: set security_protocol to {wanted}, or remove"
        )
    if ("ssl_certificate_location" in given) != ("ssl_key_location" in given):
        problems.append("ssl_certificate_location and ssl_key_location go together: set both")
    return problems


PLAINTEXT: Final = Security()
