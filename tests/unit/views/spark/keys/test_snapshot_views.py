"""Which tables ``headwater snapshot start --view`` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import UsageError, ViewError
from headwater.cli.snapshot.choice import tables_of
from tests.unit.verification.test_view_facts import config


def test_all_tables_of_any_select_are_read(tmp_path: Path) -> None:
    """Also of one that is kept by keys or whole, and that no other engine takes."""
    assert tables_of(config(tmp_path), ["v"]) == ['"public"."orders"', '"s"."items"']


def test_a_history_reads_its_table(tmp_path: Path) -> None:
    assert tables_of(config(tmp_path), ["log"]) == ['"public"."orders"']
    assert tables_of(config(tmp_path, orders=False), ["log"]) == ['"public"."orders"']


def test_what_is_not_declared_or_not_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        tables_of(config(tmp_path), ["other"])
    with pytest.raises(ViewError):
        tables_of(config(tmp_path, engine="delta"), ["v"])
