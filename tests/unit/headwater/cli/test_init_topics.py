"""What ``headwater init`` refuses of topics that stand, and when it makes those that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.config import Events
from cdc.errors import LogError, SourceError
from cdc.events.form import OURS
from cdc.events.marks import Mark
from cdc.kafka.broker import TopicSpec
from cdc.source.slot import SourceIdentity
from headwater.cli.init import topics as init_topics
from headwater.cli.init.topics import refuse_other_history, restore_topics

MARK = Mark(100, {"shop.message": {0: 0}, "shop.public.item": {0: 7}}, "7", 1, "shop", "slot")
SHOP = cast(Any, SimpleNamespace(source=SimpleNamespace(name="shop"), events=Events(), form=OURS))
NO_TABLES = list[Any]()
HERE = SourceIdentity("7", 1, "shop")


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest one."""
    for name in ("newest_mark", "stored_mark"):
        monkeypatch.setattr(init_topics, name, lambda *_: SimpleNamespace(mark=MARK))


@pytest.mark.parametrize(
    ("here", "refused"),
    [
        (HERE, False),
        (SourceIdentity("8", 1, "shop"), True),
        (SourceIdentity("7", 1, "staging"), True),
    ],
)
def test_topics_that_another_database_filled_are_not_taken_over(
    monkeypatch: pytest.MonkeyPatch, here: SourceIdentity, *, refused: bool
) -> None:
    monkeypatch.setattr(init_topics, "newest_event", lambda *_: 0)
    monkeypatch.setattr(init_topics, "identify", lambda _: here)
    conn = SimpleNamespace(execute=lambda _: SimpleNamespace(fetchone=lambda: ("1/0",)))
    kit = cast(Any, SimpleNamespace(config=SHOP, conn=conn, broker=None))
    if not refused:
        refuse_other_history(kit, is_known=True)
        return
    with pytest.raises(LogError, match=r"filled from another database or history .*shop"):
        refuse_other_history(kit, is_known=True)
    refuse_other_history(kit, is_known=True, moved=True)
    monkeypatch.setattr(init_topics, "newest_event", lambda *_: 1 << 32)
    with pytest.raises(LogError, match="wait until its WAL is past"):
        refuse_other_history(kit, is_known=True, moved=True)


class Kafka:
    """A broker in which only some topics are; ``made`` are those that were created."""

    def __init__(self, *topics: str) -> None:
        self.there = {*topics, "shop.__progress"}
        self.made: list[str] = []

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic in self.there}

    def create_topics(self, specs: list[TopicSpec]) -> list[str]:
        self.made += [spec.name for spec in specs]
        return self.made


def test_a_topic_that_capture_knows_is_made_again_only_while_capture_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["shop.__progress", "shop.message", "shop.public.item", "shop.transaction"]
    specs = [TopicSpec(name, 1, 1) for name in names]
    monkeypatch.setattr(init_topics, "all_specs", lambda *_: specs)
    gone = cast(Any, Kafka("shop.public.item", "shop.transaction"))
    with pytest.raises(SourceError, match=r"shop\.message.*Stop `headwater capture`"):
        restore_topics(SHOP, gone, NO_TABLES, 4711, HERE)
    assert gone.made == []
    assert restore_topics(SHOP, gone, NO_TABLES, None, HERE) == ["shop.message"]
    new = cast(Any, Kafka("shop.public.item", "shop.message"))
    assert restore_topics(SHOP, new, NO_TABLES, 4711, HERE) == [
        "shop.transaction"
    ]  # in no mark yet
