"""``source.columns``: the treatments that there are, and what is said of others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc.config import parse_config
from cdc.errors import ConfigError

KEY = "0123456789abcdef"


def parsed(columns: object, keys: dict[str, str] | None = None) -> dict[str, str]:
    """The treatments of a table, in words."""
    source = {"name": "s", "dsn": "x", "tables": ["a.*"], "columns": {"a.t": {"c": columns}}}
    if keys is not None:
        setting = "encryption_keys" if "encrypt" in str(columns) else "hash_keys"
        source[setting] = keys
    document = {"source": source, "kafka": {"bootstrap_servers": "h:1"}}
    config = parse_config(document, {"KEY": KEY, "SHORT": "short"}, Path("/"))
    assert KEY not in repr(config)
    treated = config.source.treated.get("a.t", {})
    excluded = dict.fromkeys(config.source.excluded("a.t"), "exclude")
    return excluded | {name: str(one) for name, one in treated.items()}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("exclude", "exclude"),
        ("mask", "mask ***"),
        ({"mask": "hidden"}, "mask hidden"),
        ({"truncate": 4}, "truncate 4"),
        ("hash", "hash 2 b5f6dc024dbf0c23"),
        ({"hash": "1"}, "hash 1 861099e973b79c09"),
        ("encrypt", "encrypt 2 0ebad91cebf14ddc"),
        ({"encrypt": "1"}, "encrypt 1 7d64aa854d4bfef9"),
    ],
)
def test_a_column_has_one_treatment(rule: object, said: str) -> None:
    assert parsed(rule, {"1": "${KEY}", "2": f"{KEY}!"}) == {"c": said}


@pytest.mark.parametrize(
    ("rule", "keys", "said"),
    [
        ("maks", None, 'source.columns."a.t".c: is \'maks\': write "exclude", "mask", "hash"'),
        ("truncate", None, "truncate takes the number of characters that are kept, 1 to 1000"),
        ({"truncate": 0}, None, "truncate takes the number of characters"),
        ({"truncate": True}, None, "truncate takes the number of characters"),
        ({"truncate": "4"}, None, "truncate takes the number of characters"),
        ({"mask": 7}, None, "mask does not take that"),
        ({"exclude": True}, None, "exclude does not take that"),
        ({"mask": "a", "truncate": 4}, None, "names 2 treatments"),
        ({"ssn": "mask"}, None, "no treatment is 'ssn': .*; put a table's name in quotes"),
        ("encrypt", None, r"encryption_keys: a.t.c is encrypted, and there is no key: add encr"),
        ({"encrypt": "3"}, {"1": KEY}, "a.t.c is encrypted with '3': known are 1"),
        ({"encrypt": 3}, {"1": KEY}, "encrypt does not take that"),
        ("encrypt", {"1": "${SHORT}"}, "source.encryption_keys.1: is shorter than 16 characters"),
        ("hash", None, r"source.hash_keys: a.t.c is hashed, and there is no key: add hash_keys"),
        ({"hash": "3"}, {"1": KEY}, "a.t.c is hashed with '3': known are 1"),
        ("hash", {"1": "${SHORT}"}, "source.hash_keys.1: is shorter than 16 characters"),
        ("hash", {"a b": KEY}, "hash_keys"),
        ("hash", {"1": "${MISSING}"}, "environment variable MISSING is not set"),
    ],
)
def test_other_treatments_are_refused_in_words(
    rule: object, keys: dict[str, str] | None, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(rule, keys)
    assert re.search(said, str(refused.value)), refused.value
    assert "short:" not in str(refused.value)
    assert KEY not in str(refused.value)
