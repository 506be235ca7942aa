"""Topics and keys of tables that share a topic are what Debezium's ``ByLogicalTableRouter`` makes
of the same records, but for the names of schemas.

Recorded by ``python -m tests.oracle.record_routes``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.oracle.record_routes import RECORDED
from tests.oracle.route_records import Case, cases

RECORDS: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", list(cases()), ids=lambda one: one.name)
def test_topic_and_key_are_the_routers_and_schemas_keep_the_tables_name(one: Case) -> None:
    theirs = RECORDS[one.name]
    assert one.topic == theirs["topic"]
    assert theirs["value"] == (f"{one.topic}.Envelope" if one.value else None)
    if not one.routed:
        assert theirs["key"] is None
        return
    ours = json.loads(one.routed)
    assert list(ours["payload"].items()) == list(theirs["key"]["payload"].items())
    assert theirs["key"]["schema"].pop("name") == f"{one.topic}.Key"
    assert ours["schema"].pop("name") == f"{one.plain}.Key"
    assert ours["schema"] == theirs["key"]["schema"]
