"""The demo's views: each of them joins, and fits the demo's tables."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import demo
from demo.environment import STORES, VIEWS, Addresses, config
from tests.support.events.declared_tables import declared_tables
from views.parse.definition import parse_view
from views.spark.view import MaintainedView, resolve_view

SCHEMA = (Path(demo.__file__).with_name("schema.sql")).read_text(encoding="utf-8")
DECLARED = tomllib.loads(config(Addresses("postgresql://", "kafka:1", "http://", "redis://")))


def test_every_view_has_its_store_and_its_tables() -> None:
    assert list(DECLARED["views"]) == list(VIEWS) == list(STORES)


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_joins(name: str) -> None:
    declared = DECLARED["views"][name]
    definition = parse_view(name, declared["store"], declared["key"], declared["sql"])
    assert len(definition.occurrences) > 1
    assert definition.table_names == tuple(f"public.{table}" for table in VIEWS[name])
    view = resolve_view(definition, declared_tables(SCHEMA))
    assert isinstance(view, MaintainedView)
