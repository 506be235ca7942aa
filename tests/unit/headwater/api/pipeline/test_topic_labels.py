"""Which tables the topics page names."""

from __future__ import annotations

from cdc.protocol.relation import Relation
from headwater.api.pipeline.figures import labels_by_topic
from headwater.api.tables import CapturedTable


def test_topics_of_rows_and_of_several_tables_are_named() -> None:
    shape = Relation(1, "public", "a", "d", (), ())
    tables = [
        CapturedTable("public.a", "s.public.a", shape, "s.rows"),
        CapturedTable("public.b", "s.public.b", shape, "s.rows"),
        CapturedTable("public.c", "s.public.c", shape),
    ]
    assert labels_by_topic(tables) == {
        "s.public.a": ["public.a"],
        "s.public.b": ["public.b"],
        "s.rows": ["public.a", "public.b"],
        "s.public.c": ["public.c"],
    }
