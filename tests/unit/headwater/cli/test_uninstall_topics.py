"""Which topics and groups ``headwater uninstall`` takes, and that they are this database's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from cdc.config import Apply, Config, Source, View
from cdc.errors import LogError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker
from cdc.source.slot import SourceIdentity
from headwater.cli import app
from headwater.cli.common import confirmation
from headwater.cli.uninstall import command
from headwater.cli.uninstall import plan as uninstall_plan
from headwater.cli.uninstall.plan import Uninstall
from headwater.cli.uninstall.topics import found_in_kafka, refuse_topics_of_others

PRODUCTION = Mark(100, {"shop.public.left": {0: 5}}, "7", 1, "shop", "headwater_shop")
HERE = SourceIdentity("7", 3, "shop")
TOPICS = (
    "shop.__progress", "shop.__schemas", "shop.message", "shop.outbox.mails", "shop.public.item",
    "shop.public.left", "shop.x", "built.dlq", "other.dlq",
)  # fmt: skip


class Kafka:
    """A broker that has some topics and groups."""

    groups = frozenset(
        {"headwater.built", "headwater.other", "headwater.third", "headwater.shop.__alerts.big",
         "headwater.shop.__alerts.was", "headwater.shop2.__alerts.big"}
    )  # fmt: skip

    def topics(self, prefix: str) -> list[str]:
        return [topic for topic in TOPICS if topic.startswith(prefix)]

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return {topic: 1 for topic in topics if topic in TOPICS}

    def existing_groups(self, groups: list[str]) -> list[str]:
        return sorted(self.groups & set(groups))

    def group_topics(self, groups: list[str]) -> dict[str, list[str]]:
        held = {
            "headwater.built": ["shop.public.item"],
            "headwater.third": ["shop.x", "b.public.x"],
        }
        return {group: held[group] for group in groups if group in held}

    def groups_of(self, prefix: str) -> list[str]:
        return sorted(group for group in self.groups if group.startswith(prefix))


@pytest.mark.parametrize("here", [HERE._replace(system_id="8"), HERE._replace(database="staging")])
def test_topics_that_another_database_filled_are_refused(here: SourceIdentity) -> None:
    refuse_topics_of_others("shop", PRODUCTION, HERE, False)
    with pytest.raises(LogError, match=r"from database shop of cluster 7, but source\.dsn"):
        refuse_topics_of_others("shop", PRODUCTION, here, True)


def test_without_a_mark_the_database_has_to_know_the_source() -> None:
    refuse_topics_of_others("shop", None, HERE, True)
    with pytest.raises(LogError, match="does not know the source: nothing was removed"):
        refuse_topics_of_others("shop", None, HERE, False)


def test_only_views_that_were_built_lose_their_topics_and_groups() -> None:
    views = ({"built"}, {"other", "third", "none"})
    kafka = cast(Broker, Kafka())
    found = found_in_kafka(kafka, "shop", PRODUCTION, {"shop.public.item"}, views)
    assert found.topics == (
        "built.dlq", "shop.__schemas", "shop.message", "shop.outbox.mails", "shop.public.item",
        "shop.public.left", "shop.__progress",
    )  # fmt: skip
    alerts = ("headwater.shop.__alerts.big", "headwater.shop.__alerts.was")
    assert found.groups == ("headwater.built", *alerts), "those of alerts that were removed, too"
    assert found.foreign == ("shop.x",)
    assert found.unbuilt_topics == ("other.dlq",)
    assert found.unbuilt_groups == ("headwater.other", "headwater.third")


def test_a_view_that_another_source_has_too_keeps_its_topic_and_group() -> None:
    views = ({"built", "third"}, {"other"})
    kafka = cast(Broker, Kafka())
    found = found_in_kafka(kafka, "shop", PRODUCTION, {"shop.public.item"}, views)
    assert "headwater.built" in found.groups
    assert "headwater.third" not in found.groups
    assert found.unbuilt_groups == ("headwater.other", "headwater.third")


def test_the_plan_is_shown_before_the_question_also_with_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "headwater.toml"
    config.write_text(
        '[source]\nname = "shop"\ndsn = "host=none"\ntables = ["public.*"]\n'
        '[kafka]\nbootstrap_servers = "none:1"\n'
    )
    found = Uninstall(
        slot="headwater_shop", retained=5, publication="", schema=False, others=(),
        ddl_events=False, topics=("shop.message",), groups=(), state=None, state_database="",
        views=(), foreign=("shop.x",), unbuilt_topics=("other.dlq",),
        unbuilt_groups=("headwater.other",),
    )  # fmt: skip
    monkeypatch.setattr(uninstall_plan, "planned", lambda _: found)
    monkeypatch.setattr(confirmation, "on_terminal", lambda: True)
    arguments = ["--config", str(config), "uninstall", "--json"]
    result = CliRunner().invoke(app.app, arguments, input="n\n")
    assert result.exit_code == 1, result.output
    before, asked, _ = result.stderr.partition("Remove all of that")
    assert (asked, "removed" in result.stdout) == ("Remove all of that", False)
    for said in ("slot headwater_shop", "topic shop.message", "topic other.dlq, of a view that"):
        assert said in before, said
    document = command.document(found)
    assert json.loads(json.dumps(document))["stays"] == {
        "views": [],
        "topics": ["shop.x", "other.dlq"],
        "groups": ["headwater.other"],
        "sources": [],
        "state_database": None,
    }


def test_a_view_that_another_machine_applies_counts_as_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    view = View.model_construct(store="lake")
    config = Config.model_construct(
        source=Source.model_construct(name="shop"),
        apply=Apply.model_construct(state=str(tmp_path)),
        views={"elsewhere": view, "unbuilt": view},
    )
    monkeypatch.setattr(uninstall_plan, "views_of_state", lambda _: {"elsewhere": view})
    assert uninstall_plan.built(config, config) == (("elsewhere", "lake"),)
