"""When a running view reads its tables' versions again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from cdc.kafka.broker import Broker
from jobs.without_mirrors import table_descriptions as described
from jobs.without_mirrors.schemas_topic import Versions
from jobs.without_mirrors.table_descriptions import Descriptions
from views.table_versions import TableColumn, TableVersion
from views.types import PgType

TEXT = PgType("text")


def version(id_: str, *names: str, nullable: bool = True) -> TableVersion:
    columns = tuple(TableColumn(name, TEXT, nullable, at) for at, name in enumerate(names, 1))
    return TableVersion(id_, "public", "t", columns, ("id",), 16400)


def in_order(*versions: TableVersion) -> Versions:
    return {one.schema_id: one for one in versions}


FIRST, SECOND = version("1", "id"), version("2", "id", "x")
THIRD = version("3", "id", "y")


class Topic:
    """The topic of schemas: one record more with each look."""

    def __init__(self) -> None:
        self._end = 0

    def end_offsets(self, topics: list[str]) -> Mapping[str, Mapping[int, int]]:
        self._end += 1
        return {topic: {0: self._end} for topic in topics}


@pytest.mark.parametrize(
    ("were", "are", "is_changed"),
    [
        ([FIRST, SECOND], [FIRST, SECOND], False),
        ([FIRST, SECOND], [FIRST, SECOND, THIRD], False),  # its first event tells
        ([FIRST, SECOND, THIRD], [SECOND, FIRST, THIRD], False),
        ([FIRST, SECOND], [version("1", "id", nullable=False), SECOND], True),
        ([FIRST, SECOND], [SECOND, FIRST], True),  # ADD COLUMN x, DROP COLUMN x
        ([FIRST, SECOND], [SECOND, FIRST, THIRD], True),
    ],
)
def test_known_versions_are_others_or_stand_in_another_order(
    monkeypatch: pytest.MonkeyPatch,
    were: list[TableVersion],
    are: list[TableVersion],
    is_changed: bool,
) -> None:
    answers = iter([in_order(*were), in_order(*are)])
    monkeypatch.setattr(described, "described", lambda *_: {"public.t": next(answers)})
    descriptions = Descriptions(cast("Broker", Topic()), "s", cast(Any, None))
    descriptions.read()
    assert descriptions.changed() is is_changed
