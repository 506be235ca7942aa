"""The script of ``headwater init --print-sql`` for tables with excluded columns."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc.config import Source
from cdc.source.columns.excluded_columns import ColumnList
from cdc.source.publication import Publication
from cdc.source.selection import Table
from headwater.cli.init import role_script
from headwater.cli.init.role_script import Roles

SOURCE = Source.model_validate(
    {
        "name": "shop",
        "dsn": "dbname=shop",
        "tables": ["public.*"],
        "columns": {label: {"ssn": "exclude"} for label in ("public.old", "public.new")},
    }
)
TABLES = [Table(i, "public", name, "r", "p", "d", True) for i, name in enumerate(("new", "old"))]


def test_a_table_that_is_added_gets_its_list_and_one_that_is_there_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current = Publication(frozenset({("public", "old")}), True, True)
    lists = {("public", name): ColumnList(("id",), None, ("ssn",)) for name in ("new", "old")}
    monkeypatch.setattr(role_script, "read_publication", lambda *_: current)
    monkeypatch.setattr(role_script, "column_lists", lambda *_: lists)
    told = role_script._publication(cast("Any", None), SOURCE, TABLES, "headwater", Roles())
    changed = [line for line in told if " TABLE " in line]
    assert changed == [
        'ALTER PUBLICATION "headwater_shop" ADD TABLE ONLY "public"."new" ("id");',
    ]
