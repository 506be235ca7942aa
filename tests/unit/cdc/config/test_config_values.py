"""Every value that a ``headwater.toml`` may not have: its place, and what is allowed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cdc.config.test_config_faults import changed, told

STORES = "[stores.search]"
CHOOSE = "known are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
NAME = "use up to 100 letters, digits, _ and -, the first one a letter or digit"
PORT = '"localhost:9092"'


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
            "sql =",
            'history = "scd3"\nsql =',
            "views.open_orders.history: is 'scd3': did you mean scd2? known are log, scd2",
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
