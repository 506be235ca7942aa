"""Reading a ``headwater.toml``: completed, anchored, refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import (
    Apply,
    Capture,
    Delta,
    Kafka,
    OpenSearch,
    Postgres,
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


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("SHOP_DSN", "NOWHERE").replace("sql =", "sqll =")
    assert len(problems(tmp_path / "headwater.toml", text)) == 3  # sql is missing too


def test_a_text_without_its_variable_is_one_fault(tmp_path: Path) -> None:
    text = GOOD.replace("localhost:9092", "${KAFKA}").replace("http://localhost:9200", "${SEARCH}")
    path = tmp_path / "headwater.toml"
    assert problems(path, text) == [
        f"{path}: kafka.bootstrap_servers: environment variable KAFKA is not set: export it",
        f"{path}: stores.search.url: environment variable SEARCH is not set: export it",
    ]


def test_a_byte_order_mark_is_passed_over_and_other_encodings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert load_config(path, ENVIRONMENT).source.name == "shop"
    path.write_bytes(GOOD.encode() + b"# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"headwater\.toml: line 15: not UTF-8: save it as UTF-8"):
        load_config(path, ENVIRONMENT)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: is a folder: name a file with --config"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match=r"none\.toml: no such file: write one or name it"):
        load_config(tmp_path / "none.toml")


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
    stores = (OpenSearch, Redis, Delta, Postgres)
    sections = (Source, Kafka, Capture, Snapshot, View, Apply)
    names = {name for section in (*stores, *sections) for name in section.model_fields} - {"kind"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
