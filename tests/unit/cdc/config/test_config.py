"""Reading a ``headwater.toml``: completed, anchored, refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.config import (
    Apply,
    Capture,
    Delta,
    Kafka,
    Metrics,
    OpenSearch,
    Postgres,
    Redis,
    Snapshot,
    Source,
    Table,
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
    with pytest.raises(ConfigError, match=r"headwater\.toml: line 15: not UTF-8\. Save it"):
        load_config(path, ENVIRONMENT)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: is a folder. Name a file with --config"):
        load_config(tmp_path)
    with pytest.raises(ConfigError, match=r"none\.toml: no such file\. Write one or name it"):
        load_config(tmp_path / "none.toml")


LAKE = GOOD.replace('"opensearch"', '"delta"').replace("url = ", "path = ")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD + 'history = "log"', "views.open_orders.history: its store is opensearch, and only"),
        (LAKE + 'history = "all"', "views.open_orders.history: "),
        (
            LAKE + 'history = "log"\nchange_stream = true',
            "views.open_orders.change_stream: a history keeps what rows were",
        ),
        (
            GOOD + 'change_stream = true\n[apply]\nengine = "delta"',
            'views.open_orders.change_stream: needs apply.engine = "database"',
        ),
        (
            LAKE + 'partition_by = ["a"]\ncluster_by = ["b"]',
            "views.open_orders.cluster_by: a table with partition_by has none: keep one of them",
        ),
        (LAKE + 'cluster_by = ["a", "b", "c", "d", "e"]', "views.open_orders.cluster_by: "),
        (
            LAKE.replace("path", "retention_days = 3\npath"),
            "stores.search.retention_days: is 3, and `headwater view rollback` needs files for",
        ),
    ],
)
def test_what_a_delta_table_cannot_be_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    (line,) = problems(tmp_path / "headwater.toml", text)
    assert fault in line


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_topics_of_events_may_not_be_compacted(tmp_path: Path, policy: str) -> None:
    text = f'{GOOD}[kafka.topic]\n"cleanup.policy" = "{policy}"\n'
    (line,) = problems(tmp_path / "headwater.toml", text)
    assert 'topic."cleanup.policy": a compacted topic refuses records without a key' in line


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Open_Orders", "views.Open_Orders: is the name of views.open_orders in other letters: r"),
        ("open_orders-999", "views.open_orders-999: is what OpenSearch calls an index of views"),
        ("OPEN_orders-12", "views.OPEN_orders-12: is what OpenSearch calls an index of views.open"),
    ],
)
def test_a_view_has_a_name_of_its_own_in_its_store(tmp_path: Path, name: str, fault: str) -> None:
    view = '[views.{}]\nstore = "search"\nkey = ["id"]\nsql = "select id from orders"\n'
    (line,) = problems(tmp_path / "headwater.toml", GOOD + view.format(name))
    assert fault in line


@pytest.mark.parametrize(
    "name",
    ["open_orders-a", "open_orders1", "closed_orders-1", "open_orders-2024", "open_orders-007"],
)
def test_a_view_s_name_may_be_like_another(tmp_path: Path, name: str) -> None:
    view = '[views.{}]\nstore = "search"\nkey = ["id"]\nsql = "select id from orders"\n'
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD + view.format(name), encoding="utf-8")
    assert set(load_config(path, ENVIRONMENT).views) == {"open_orders", name}


def test_a_store_that_a_generation_is_still_in_is_named(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD, encoding="utf-8")
    config = load_config(path, ENVIRONMENT)
    assert config.store("search") == config.stores["search"]
    with pytest.raises(ConfigError, match=r"has no 'old', .* If \[stores\.old\] is new, restart"):
        config.store("old")


def test_files_need_not_outlive_generations_that_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    text = LAKE.replace("path", "retention_days = 3\npath") + "[apply]\nkeep_generations = 0\n"
    path.write_text(text, encoding="utf-8")
    store = load_config(path, ENVIRONMENT).stores["search"]
    assert isinstance(store, Delta)
    assert store.retention_days == 3


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs/configuration.md").read_text(encoding="utf-8")
    stores = (OpenSearch, Redis, Delta, Postgres)
    sections = (Source, Kafka, Capture, Snapshot, View, Table, Apply, Metrics)
    names = {name for section in (*stores, *sections) for name in section.model_fields} - {"kind"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("9464", "127.0.0.1:9464"),
        ('"9464"', "127.0.0.1:9464"),
        ('"0.0.0.0:9464"', "0.0.0.0:9464"),
        ('"[::1]:9464"', "[::1]:9464"),
        ('""', ""),
    ],
)
def test_metrics_of_a_port_alone_are_for_this_machine(
    tmp_path: Path, given: str, address: str
) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD + f"[metrics]\ncapture = {given}\n", encoding="utf-8")
    config = load_config(path, ENVIRONMENT)
    assert (config.metrics.capture, config.metrics.apply) == (address, "")


@pytest.mark.parametrize(
    "given", ['":9464"', '"::1:9464"', '"host"', "0", "65536", "true", '"a:b"']
)
def test_an_address_of_another_form_is_refused_with_its_place(tmp_path: Path, given: str) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD + f"[metrics]\napply = {given}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"metrics\.apply: is "):
        load_config(path, ENVIRONMENT)


def test_a_table_may_have_no_mirror(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD + '[tables."public.events"]\nmirror = false\n', encoding="utf-8")
    config = load_config(path, ENVIRONMENT)
    assert not config.is_mirrored("public.events")
    assert config.is_mirrored("public.orders")


@pytest.mark.parametrize("name", ["events", "public.*", "public.events"])
def test_a_table_s_section_names_one_table_in_quotes(tmp_path: Path, name: str) -> None:
    quoted = name if name == "public.events" else f'"{name}"'
    text = GOOD + f"[tables.{quoted}]\nmirror = false\n"
    line = problems(tmp_path / "headwater.toml", text)[0]
    assert 'name one table, in quotes: [tables."public.orders"]' in line


SECRETS = """
[kafka.producer]
"client.rack" = "s3cr3t"
[stores.lake]
kind = "postgres"
dsn = "${SHOP_DSN}"
[stores.cache]
kind = "redis"
url = "redis://:s3cr3t@localhost:6379/0"
[stores.index]
kind = "opensearch"
url = "https://user:s3cr3t@localhost:9200"
password = "s3cr3t"
[apply]
state_dsn = "${SHOP_DSN}"
[apply.spark]
"spark.hadoop.fs.s3a.secret.key" = "s3cr3t"
"""


def test_no_setting_that_may_hold_a_secret_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(GOOD + SECRETS, encoding="utf-8")
    config = load_config(path, ENVIRONMENT)
    assert config.apply.state_dsn == config.source.dsn == ENVIRONMENT["SHOP_DSN"]
    assert config.apply.spark == {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}
    assert "s3cr3t" not in repr(config)
