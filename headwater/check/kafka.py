"""Checks of Kafka: reachable, and the topics as ``headwater init`` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cdc.capture.routed_tables import check_joining
from cdc.config import Config
from cdc.events.codes import TRUNCATE
from cdc.events.form import OURS
from cdc.kafka.broker import Broker, TopicSpec, different_partitions
from cdc.kafka.marks import refuse_foreign_topics, refuse_other_form, stored_mark
from cdc.source.selection import Table
from cdc.topics import view_group
from headwater.check.finding import Finding
from views.parse.table_references import tables_read


def kafka(
    broker: Broker,
    address: str,
    specs: list[TopicSpec],
    initialised: bool,
) -> Iterator[Finding]:
    """Raises ``HeadwaterError`` when Kafka cannot be reached."""
    existing = broker.partitions([spec.name for spec in specs])
    yield Finding("ok", "kafka", f"reachable at {address}")
    missing = [spec.name for spec in specs if spec.name not in existing]
    if missing and initialised:
        message = f"topics are missing: {', '.join(missing)}"
        hint = "run `headwater table add` for a table that is new in source.tables, "
        hint += "`headwater init --again` for topics that were deleted"
        yield Finding("error", "topics", message, hint)
    elif missing:
        yield Finding("ok", "topics", f"init creates {len(missing)}, {len(existing)} are there")
    else:
        yield Finding("ok", "topics", f"{len(existing)} are there")
    single = {spec.name for spec in specs if spec.partitions == 1}
    for name, (wanted, has) in different_partitions(broker, specs).items():
        message = f"topic {name} has {has} partitions, but the configuration says {wanted}"
        if name in single:
            yield Finding("error", "topics", message, f"delete topic {name}; init creates it")
        elif has < wanted:  # more were asked for with `topics add-partitions`
            hint = f"set kafka.partitions = {has}: it applies to new topics only; or run "
            hint += "`headwater topics add-partitions`"
            yield Finding("warning", "topics", message, hint)
    yield from _cleanup(broker, {spec.name: spec for spec in specs if spec.name in existing})


def topics_database(config: Config, broker: Broker, tables: Sequence[Table]) -> Iterator[Finding]:
    """Raises ``LogError`` where the source's topics are of another database than source.dsn's, or
    hold events of another form than ``[events]`` has, or where routes put ``tables`` elsewhere than
    their records are, or into topics of another source."""
    refuse_foreign_topics(config, broker)
    if (stored := stored_mark(broker, config.source.name)) is not None:
        refuse_other_form(config, stored.mark.form)
        check_joining(config, broker, [(one.schema, one.name) for one in tables], stored.mark)
    yield from ()


def view_groups(config: Config, broker: Broker) -> Iterator[Finding]:
    """A warning for each view whose consumer group another source uses, too."""
    source, groups = config.source, {view_group(view): view for view in config.views}
    for group, topics in broker.group_topics(list(groups)).items():
        view = groups[group]
        tables = [(one.schema, one.table) for one in tables_read(view, config.views[view].sql)]
        if others := [topic for topic in topics if not source.is_own(topic, tables)]:
            message = f"view {view}: consumer group {group} has offsets of {', '.join(others)}"
            hint = "another source has a view of this name on this Kafka: call one differently"
            yield Finding("warning", "consumer groups", message, hint)


def truncates(config: Config, broker: Broker, tables: Sequence[Table]) -> Iterator[Finding]:
    """Whether a consumer of several partitions may truncate its table once for each. Views are made
    for it, so where there are some in our own form it is no warning."""
    form = config.form
    places = [config.source.place(one.schema, one.name) for one in tables]
    topics = [place.topic for place in places if TRUNCATE not in form.of(place).left_out]
    if not topics:
        return
    existing = broker.partitions(sorted(set(topics)))
    several = [one for one in topics if existing.get(one, 0) > 1]
    yield from _shared_truncates(config, topics)
    if not several:
        return
    message = "a TRUNCATE is an event in each partition of a topic, and topics have several "
    message += f"({several[0]} has {existing[several[0]]})"
    if config.views and replace(form, routes=()) == OURS:
        yield Finding("ok", "truncates", message)
        return
    message += ": a sink that truncates its table at each of them loses rows of other partitions"
    hint = 'set skipped.operations = "t" in [events], or kafka.partitions = 1, or have consumers '
    hint += "pass over events with op t"
    yield Finding("warning", "truncates", message, hint)


def _shared_truncates(config: Config, tables: Sequence[str]) -> Iterator[Finding]:
    """Whether a TRUNCATE of one table stands in a topic that other tables are in."""
    routes = [route for route in config.source.routing if route.shared]
    shared = sorted({one for one in tables if tables.count(one) > 1})
    if not routes or not shared:
        return
    message = f"a TRUNCATE of one table is an event in the topic of several ({shared[0]}): a sink "
    message += "that truncates its table at it loses the rows of the others"
    hint = 'set skipped.operations = "t" in [events], or have consumers compare source.schema and '
    hint += "source.table"
    yield Finding("warning", "truncates", message, hint)


def _cleanup(broker: Broker, specs: Mapping[str, TopicSpec]) -> Iterator[Finding]:
    """Whether topics keep what has to be kept, and take what is written to them."""
    for name, setting in broker.topic_config(list(specs)).items():
        compacted = "compact" in setting.get("cleanup.policy", "")
        if compacted == (specs[name].config.get("cleanup.policy") == "compact"):
            continue
        alter = f"kafka-configs --alter --topic {name} --add-config cleanup.policy"
        if compacted:
            message = f"topic {name} is compacted: it refuses records without a key, as a TRUNCATE "
            message += "is, and capture would stop"
            hint = f"run `{alter}=delete`"
            yield Finding("error", "topics", message, hint)
        else:
            message = f"topic {name} is not compacted: it would lose table versions or progress"
            hint = f"run `{alter}=compact`"
            yield Finding("error", "topics", message, hint)
