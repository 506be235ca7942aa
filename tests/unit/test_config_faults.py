"""Every fault of a ``headwater.toml`` is one line, in our words: its place, what is wrong, what is
allowed there or may have been meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_config import GOOD, problems

STORES = "[stores.search]"
CHOOSE = "known are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
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
            "stores.search.zzz: unknown setting: known are kind, url, user, password, verify_certs",
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
            "kafka.ssl_check_hostname: is neither true nor false: set one of them, without quotes",
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


@pytest.mark.parametrize(
    ("good", "bad", "fault"),
    [
        ('"shop"', '"sh op"', f"source.name: is 'sh op': {NAME}"),
        (
            STORES,
            f"[stores.'a b']\nkind='delta'\npath='x'\n{STORES}",
            "stores.\"a b\": is 'a b': u",
        ),
        (
            "tables =",
            'slot = "Shop"\ntables =',
            "source.slot: is 'Shop': use up to 63 small letters, digits and _",
        ),
        (
            "tables =",
            f'publication = "{"x" * 64}"\ntables =',
            "source.publication: is too long: at most 63 characters",
        ),
        (
            PORT,
            '"localhost"',
            "kafka.bootstrap_servers: 'localhost' is not HOST:PORT: write localhost:9092",
        ),
        (
            PORT,
            '"a:1,PLAINTEXT://b:1"',
            "kafka.bootstrap_servers: 'PLAINTEXT://b:1' is not HOST:PORT: write localhost:9092",
        ),
        (
            PORT,
            f"{PORT}\npartitions = -3",
            "kafka.partitions: is -3: set a number, at least 1 and at most 1000",
        ),
        (
            STORES,
            f"[capture]\nqueue_mb = 4\n{STORES}",
            "capture.queue_mb: is 4: set a number, at least 8",
        ),
        (
            STORES,
            f"[capture]\nfeedback_s = nan\n{STORES}",
            "capture.feedback_s: is nan: set a number, above 0 and at most 30",
        ),
        (
            STORES,
            f"[capture]\nsilence_s = 1\n{STORES}",
            "capture.silence_s: the server is asked each feedback_s = 1: set at least twice that",
        ),
        (
            STORES,
            f'[capture]\nwal_limit_action = "dorp"\n{STORES}',
            "capture.wal_limit_action: is 'dorp': did you mean drop? known are warn, stop, drop",
        ),
        (
            STORES,
            f'[capture]\nsignals = ["kafak"]\n{STORES}',
            "capture.signals: entry 1 is 'kafak': did you mean kafka? known are source, kafka",
        ),
        (
            PORT,
            f'{PORT}\nsecurity_protocol = "TLS"',
            f"kafka.security_protocol: is 'TLS': {CHOOSE}",
        ),
        (
            STORES,
            f'[snapshot]\nrate = "0 MB/s"\n{STORES}',
            "snapshot.rate: is '0 MB/s': write 32 MB/s, 5000 rows/s or none",
        ),
        (
            "sql =",
            'format = "json"\nsql =',
            "views.open_orders.format: its store is opensearch, and only redis has that",
        ),
        (
            "sql =",
            'ttl_s = 60\nindex_by = ["id"]\nsql =',
            "views.open_orders.index_by: rows that expire, or are strings, cannot be indexed",
        ),
        (
            "sql =",
            'key_template = "order:{nr}"\nsql =',
            "views.open_orders.key_template: name each column of the key once: {id}",
        ),
        (
            'kind = "opensearch"\nurl = "http://localhost:9200"',
            'kind = "redis"\nurl = "redis://localhost/1"\ncluster = true',
            "stores.search.url: a cluster has no database but 0: end it with /0",
        ),
        (
            '"opensearch"',
            '"elasticsearch"',
            "stores.search.kind: is 'elasticsearch': did you mean opensearch? known are delta, o",
        ),
        (
            "http://localhost:9200",
            "localhost:9200",
            "stores.search.url: is no http or https URL: write one like http://localhost:9200",
        ),
        (
            "http://localhost:9200",
            "http://u:s3cr3t@localhost:70000",
            "stores.search.url: is no http or https URL: write one like http://localhost:9200",
        ),
        (
            '"opensearch"\nurl = "http://localhost:9200"',
            '"redis"\nurl = "localhost"',
            "stores.search.url: is no redis or rediss or unix URL: write one like redis://localhost",
        ),
        ('"search"\nkey', '"serach"\nkey', "views.open_orders.store: no store 'serach'; [stores]"),
    ],
)
def test_a_value_that_is_not_allowed_says_what_is(
    tmp_path: Path, good: str, bad: str, fault: str
) -> None:
    (line,) = told(tmp_path, changed(good, bad))
    assert line.startswith(fault)


@pytest.mark.parametrize(
    ("good", "bad", "where", "fault"),
    [
        ('"shop"', '"shop', "line 3, column 13", "the line ends within quotes: close them"),
        ('"shop"', "shop", "line 3, column 8", "no value: text goes in double quotes, true and f"),
        ('= "shop"', '"shop"', "line 3, column 6", "a name without a value: write name = value"),
        ('"shop"', '"shop"\nname = "b"', "line 4, column 11", "name is set twice: keep one"),
        ('"shop"', '"a\\d"', "line 3, column 12", "a backslash in double quotes: put the text in"),
        ('"shop"', '"shop" 7', "line 3, column 15", "more behind the value: quote text, one sett"),
        (
            STORES,
            f"[kafka]\n{STORES}",
            "line 8, column 7",
            "[kafka] is there twice, or after a tabl",
        ),
        ("[source]", "[source", "line 2, column 8", "the section's name is not closed: write [sec"),
        ('["public.orders"]', '["a.b"', "line 6, column 1", "a list is not closed: end it with ]"),
        ('"select id from orders"', '"""select', "at its end", "the file ends within quotes: clos"),
        (
            '"shop"',
            "{a = 1 b = 2}",
            "line 3, column 15",
            "a table is not closed: write { name = valu",
        ),
        (
            '"shop"',
            "{a = 1, a = 2}",
            "line 3, column 21",
            "a is set twice: keep one",
        ),
        (
            '"shop"',
            "'shop'\nkeys = {}\nkeys.a = ['b']",
            "line 5, column 15",
            "source.keys is set twice, or outside of its { }: write it once",
        ),
        ("[source]", "= 7\n[source]", "line 2, column 1", "neither name = value nor [section]"),
    ],
)
def test_what_is_no_toml_says_where_and_how_to_write_it(
    tmp_path: Path, good: str, bad: str, where: str, fault: str
) -> None:
    (line,) = told(tmp_path, changed(good, bad))
    assert line.startswith(f"{where}: not valid TOML: {fault}")
