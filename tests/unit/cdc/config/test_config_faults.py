"""Every fault of a ``headwater.toml`` is one line, in our words: its place, what is wrong, what is
allowed there or may have been meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cdc.config.test_config import GOOD, problems

STORES = "[stores.search]"
NAME = "use up to 100 letters, digits, _ and -, the first one a letter or digit"
PORT = '"localhost:9092"'
RAW = ("Input should", "valid string", "validation error", "Field required", "Extra inputs", "ctx")


def told(tmp_path: Path, text: str) -> list[str]:
    """The faults without the file's name, which each begins with."""
    path = tmp_path / "headwater.toml"
    found = problems(path, text)
    assert all(line.startswith(f"{path}: ") for line in found), found
    assert not [word for word in RAW if any(word in line for line in found)], found
    return [line.removeprefix(f"{path}: ") for line in found]


def changed(good: str, bad: str) -> str:
    assert good in GOOD
    return GOOD.replace(good, bad, 1)


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ("sql =", "sqll =", "views.open_orders.sqll: unknown setting: did you mean sql?"),
        (
            "url =",
            "zzz = 1\nurl =",
            "stores.search.zzz: unknown setting: known are kind, url, user, password, verify_certs"
            ", ssl_ca_location, cadence_s",
        ),
        (STORES, f"[kapture]\n{STORES}", "kapture: unknown section: did you mean [capture]?"),
        (
            STORES,
            f"[capture]\nfedback-s = 1\n{STORES}",
            "capture.fedback-s: unknown setting: did you mean feedback_s?",
        ),
        (
            STORES,
            f'[capture]\nrate = "none"\n{STORES}',
            "capture.rate: unknown setting: it belongs in [snapshot]",
        ),
        (
            "[source]",
            "verify_certs = true\n[source]",
            "verify_certs: unknown setting: it belongs in [stores.NAME]",
        ),
        (
            STORES,
            f"[source.capture]\nqueue_mb = 9\n{STORES}",
            "source.capture: unknown setting: no section stands in another, write [capture]",
        ),
    ],
)
def test_an_unknown_name_says_what_was_meant_or_where_it_belongs(
    tmp_path: Path, good: str, bad: str, fault: str
) -> None:
    assert fault in told(tmp_path, changed(good, bad))


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ('name = "shop"\n', "", "source.name: is required: add it"),
        (
            '[kafka]\nbootstrap_servers = "localhost:9092"\n',
            "",
            "kafka: is required: add the section [kafka]",
        ),
        (
            'kind = "opensearch"\n',
            "",
            "stores.search.kind: is required: add it, one of delta, opensearch, postgres or redis",
        ),
        ('"${SHOP_DSN}"', '""', "source.dsn: is empty: set it"),
        ('"${SHOP_DSN}"', '"${NO}"', "source.dsn: environment variable NO is not set: export it"),
        ('["public.orders"]', "[]", "source.tables: is empty: name at least one"),
        ("tables =", "keys = {a = []}\ntables =", "source.keys.a: is empty: name at least one"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, good: str, bad: str, fault: str) -> None:
    assert told(tmp_path, changed(good, bad)) == [fault]


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ('"shop"', "7", 'source.name: is not text: write name = "..."'),
        ('["public.orders"]', "7", 'source.tables: is not a list: write tables = ["..."]'),
        ('["public.orders"]', "[7]", "source.tables: entry 1 is not text: put it in quotes"),
        ('["id"]', '"id"', 'views.open_orders.key: is not a list: write key = ["..."]'),
        (
            PORT,
            f'{PORT}\npartitions = "two"',
            "kafka.partitions: is not a whole number: set one, at least 1 and at most 1000",
        ),
        (
            PORT,
            f"{PORT}\npartitions = 2.5",
            "kafka.partitions: is not a whole number: set one, at least 1 and at most 1000",
        ),
        (
            STORES,
            f"[capture]\nfeedback_s = []\n{STORES}",
            "capture.feedback_s: is not a number: set one, above 0 and at most 30",
        ),
        (
            PORT,
            f'{PORT}\nssl_check_hostname = "perhaps"',
            "kafka.ssl_check_hostname: is neither true nor false: set true or false, without",
        ),
        (PORT, f"{PORT}\nsasl_password = 5", "kafka.sasl_password: is not text: write sasl_p"),
        (
            PORT,
            f'{PORT}\ntopic = {{"retention.ms" = -1}}',
            'kafka.topic."retention.ms": is not text: write "retention.ms" = "..."',
        ),
        (
            PORT,
            f"{PORT}\nproducer.linger.ms = 5",
            'kafka.producer.linger: is a table: put a name with dots in quotes, "linger.ms"',
        ),
        (
            PORT,
            f'{PORT}\nproducer = {{"linger.ms" = [1]}}',
            'kafka.producer."linger.ms": is neither text, nor a number, nor true or false',
        ),
        (
            "tables =",
            'keys = {public.log = ["id"]}\ntables =',
            'source.keys.public: is a table: put a name with dots in quotes, "public.log"',
        ),
        (
            "tables =",
            'keys = ["id"]\ntables =',
            'source.keys: is not a table: write keys = { "..." = ... }',
        ),
        (
            STORES,
            f"[[snapshot]]\nworkers = 1\n{STORES}",
            "snapshot: is not a section: write [snapshot], and its settings in the lines below",
        ),
        (STORES, "[stores]", "stores: each has a section of its own: write [stores.NAME]"),
        ("[views.open_orders]", "[views]", "views: each has a section of its own: write [views.N"),
    ],
)
def test_a_wrong_type_says_what_to_write(tmp_path: Path, good: str, bad: str, fault: str) -> None:
    (line,) = told(tmp_path, changed(good, bad))
    assert line.startswith(fault)
