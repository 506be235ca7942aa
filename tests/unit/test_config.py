"""Every problem of a ``headwater.toml`` is one line with its place and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import (
    Apply,
    Capture,
    Delta,
    Kafka,
    OpenSearch,
    Redis,
    Snapshot,
    Source,
    View,
    load_config,
)
from cdc.errors import ConfigError

GOOD = """
[source]
name = "shop"
dsn = "${SHOP_DSN}"
tables = ["public.orders"]
[kafka]
bootstrap_servers = "localhost:9092"
[stores.search]
kind = "opensearch"
url = "http://localhost:9200"
[views.open_orders]
store = "search"
key = ["id"]
sql = "select id from orders"
"""
ENVIRONMENT = {"SHOP_DSN": "postgresql://app:s3cr3t@db/shop"}


def problems(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path, ENVIRONMENT)
    assert "s3cr3t" not in str(caught.value)
    return str(caught.value).splitlines()


def test_a_good_file_is_completed_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load_config(path, ENVIRONMENT).source.dsn == ENVIRONMENT["SHOP_DSN"]


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ('"search"\nkey', '"serach"\nkey', "views.open_orders.store: no store 'serach'; [stores]"),
        ("SHOP_DSN", "NOWHERE", "source.dsn: environment variable NOWHERE is not set: export it"),
        ("sql =", "sqll =", "views.open_orders.sqll: unknown setting: did you mean sql?"),
        ("url =", "zzz = 1\nurl =", "stores.search.zzz: unknown setting: known are kind, url, "),
        ("[stores", "[kapture]\n[stores", "kapture: unknown setting: did you mean capture?"),
        ("[stores", "[capture]\nfedback_s = 1\n[stores", "capture.fedback_s: unknown setting: did"),
        ('name = "shop"\n', "", "source.name: is required: add it"),
        ('["public.orders"]', "7", 'source.tables: is not a list: write tables = ["..."]'),
        ('["id"]', '"id"', 'views.open_orders.key: is not a list: write key = ["..."]'),
        ("opensearch", "solr", "stores.search.kind: no kind 'solr' of store: known are opensearch"),
        ('kind = "opensearch"\n', "", "stores.search.kind: is required: add it, one of delta, o"),
        ('name = "shop"', 'name = "shop', "not valid TOML: Illegal character '\\n' (at line 3,"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, good: str, bad: str, problem: str
) -> None:
    path = tmp_path / "headwater.toml"
    found = problems(path, GOOD.replace(good, bad, 1))
    assert any(line.startswith(f"{path}: {problem}") for line in found), found


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("SHOP_DSN", "NOWHERE").replace("sql =", "sqll =")
    assert len(problems(tmp_path / "headwater.toml", text)) == 3  # sql is missing too


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: is a folder: name a file with --config"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match=r"none\.toml: no such file: write one or name it"):
        load_config(tmp_path / "none.toml")


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
    sections = (Source, Kafka, Capture, Snapshot, OpenSearch, Redis, Delta, View, Apply)
    names = {name for section in sections for name in section.model_fields} - {"kind"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
