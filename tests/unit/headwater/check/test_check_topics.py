"""What `headwater check` says of topics that somebody else made, or set otherwise since."""

from __future__ import annotations

from typing import cast

from cdc.config import Config
from cdc.config.routes import RouteSettings
from cdc.kafka.broker import Broker, TopicSpec
from cdc.kafka.topology import topic_specs
from cdc.source.selection import Table
from headwater.check.finding import Finding
from headwater.check.kafka import kafka, truncates, view_groups

CONFIG = Config.model_validate(
    {
        "source": {"name": "shop", "dsn": "dbname=x", "tables": ["public.item"]},
        "kafka": {"bootstrap_servers": "none:1", "partitions": 3},
    }
)
TABLE = Table(1, "public", "item", "r", "p", "d", identified=True)
PROGRESS, SCHEMAS, ITEM = "shop.__progress", "shop.__schemas", "shop.public.item"


class Kafka:
    """It has topics, of these partitions and ``cleanup.policy``."""

    def __init__(self, held: dict[str, tuple[int, str]]) -> None:
        self.held = held

    def partitions(self, topics: list[str]) -> dict[str, int]:
        return {name: self.held[name][0] for name in topics if name in self.held}

    def topic_config(self, topics: list[str]) -> dict[str, dict[str, str]]:
        return {name: {"cleanup.policy": self.held[name][1]} for name in topics}


def found_by(config: Config, **held: tuple[int, str]) -> list[Finding]:
    """What is wrong where some topics are not as ``init`` makes them."""
    specs = topic_specs(config, [TABLE])
    asmade = {one.name: (one.partitions, _policy(one)) for one in specs}
    broker = cast(Broker, Kafka({**asmade, **held}))
    return [one for one in kafka(broker, "none:1", specs, True) if one.level != "ok"]


def found(**held: tuple[int, str]) -> list[Finding]:
    """The same of tables without routes."""
    return found_by(CONFIG, **held)


def _policy(spec: TopicSpec) -> str:
    return spec.config["cleanup.policy"]


def test_topics_as_init_makes_them_are_fine() -> None:
    assert found() == []


def test_a_compacted_topic_of_events_would_stop_capture() -> None:
    for policy in ("compact", "compact,delete"):
        (fault,) = found(**{ITEM: (3, policy)})
        assert (fault.level, fault.check) == ("error", "topics")
        assert f"topic {ITEM} is compacted: it refuses records without a key" in fault.message
        assert fault.hint.endswith(f"--topic {ITEM} --add-config cleanup.policy=delete`.")


def test_what_has_to_be_remembered_is_compacted() -> None:
    for topic in (PROGRESS, SCHEMAS):
        (fault,) = found(**{topic: (1, "delete")})
        assert fault.level == "error"
        assert f"topic {topic} is not compacted" in fault.message
        assert fault.hint.endswith(f"--topic {topic} --add-config cleanup.policy=compact`.")


def test_other_partitions_are_told_and_of_marks_there_is_one() -> None:
    (fault,) = found(**{ITEM: (1, "delete")})
    assert (fault.level, fault.hint.partition(":")[0]) == ("warning", "Set kafka.partitions = 1")
    assert not found(**{ITEM: (5, "delete")})  # `topics add-partitions` adds them
    (fault,) = found(**{PROGRESS: (2, "compact")})
    assert (fault.level, fault.hint) == ("error", f"Delete topic {PROGRESS}; init creates it.")


def test_a_topic_of_rows_gets_more_partitions_as_that_of_events_does() -> None:
    route = RouteSettings(tables=("public.item",), rows_topic="{source}.rows")
    source = CONFIG.source.model_copy(update={"routes": (route,)})
    config = CONFIG.model_copy(update={"source": source})
    found = found_by(config, **{"shop.rows": (1, "delete"), ITEM: (1, "delete")})
    assert len(found) == 2
    assert all("`headwater topics add-partitions`" in one.hint for one in found)


def test_topics_that_hold_no_truncate_are_not_warned_of() -> None:
    route = RouteSettings(tables=("public.item",), content="row")
    source = CONFIG.source.model_copy(update={"routes": (route,)})
    routed = CONFIG.model_copy(update={"source": source})
    other = TABLE._replace(name="other")
    held = {f"shop.public.{name}": (3, "delete") for name in ("item", "other")}
    broker = cast(Broker, Kafka(held))
    assert list(truncates(routed, broker, [TABLE])) == []
    (finding,) = truncates(routed, broker, [TABLE, other])
    assert "(shop.public.other has 3)" in finding.message
    (finding,) = truncates(CONFIG, broker, [TABLE, other])
    assert "(shop.public.item has 3)" in finding.message


def test_a_view_of_the_same_name_of_another_source_is_warned_of() -> None:
    class Groups:
        def group_topics(self, groups: list[str]) -> dict[str, list[str]]:
            held = {
                "headwater.both": ["shop.public.item", "port.public.item"],
                "headwater.ours": ["items", "shop.public.left"],
            }
            return {group: held[group] for group in groups if group in held}

    views = {
        name: {"store": "cache", "key": ["id"], "sql": "select id from item"}
        for name in ("both", "ours", "new")
    }
    config = Config.model_validate(
        {
            **CONFIG.model_dump(exclude_unset=True),
            "stores": {"cache": {"kind": "redis", "url": "redis://none:1"}},
            "views": views,
        }
    )
    routed = config.model_copy(
        update={
            "source": config.source.model_copy(
                update={"routes": (RouteSettings(tables=("public.item",), topic="items"),)}
            )
        }
    )
    (warning,) = view_groups(routed, cast(Broker, Groups()))
    assert warning.level == "warning"
    assert warning.message == (
        "view both: consumer group headwater.both has offsets of port.public.item"
    )
