"""What capture keeps of WAL in which the table has another name than now."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from cdc.config import Source
from cdc.protocol.messages import RelationColumn, RelationMessage
from cdc.source import relation_completion
from cdc.source.catalog import TableFacts
from cdc.source.columns import treated_columns
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.relation_completion import Describer

NOW = TableFacts({"id": False, "ssn": True}, ("id",), (), (("id", 23, -1, 1),), 2)


class _Describer(Describer):
    def _session(self) -> Any:
        return None

    def _learn_types(self, conn: Any, oids: set[int]) -> None:
        """None is known."""


@pytest.mark.parametrize("labels", [["public.people"], ["app.part", "public.people"], []])
def test_columns_are_excluded_by_the_table_s_present_name_too(
    monkeypatch: pytest.MonkeyPatch, labels: list[str]
) -> None:
    monkeypatch.setattr(relation_completion, "answered", nullcontext)
    monkeypatch.setattr(relation_completion, "table_facts", lambda *_: NOW)
    monkeypatch.setattr(treated_columns, "labels_now", lambda *_: labels)
    sent = RelationColumn("id", 23, -1, True), RelationColumn("ssn", 25, -1, False)
    message = RelationMessage(9, "public", "person", "d", sent)
    label = "public.people" if labels else "public.person"
    source = Source.model_validate(
        {"name": "s", "dsn": "x", "tables": ["*.*"], "columns": {label: {"ssn": "exclude"}}}
    )
    describer = _Describer("", {}, lambda _: None, "p", StreamColumns(source))
    assert [column.name for column in describer.resolve(message).columns] == ["id"]
