"""What speaks against the topics that tables would have, each in one line. Pure.

Kafka itself takes two topics for one when they differ only in ``.`` and ``_``. A topic holds
several tables only where its route says so, and then their keys never mix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from cdc.errors import one_line
from cdc.routes.route import Place, Route, place_of
from cdc.topics import (
    ddl_topic,
    dead_letters_topic,
    message_topic,
    outbox_topic,
    progress_topic,
    row_letters_topic,
    schemas_topic,
    signal_topic,
    table_topic,
    transaction_topic,
    view_dead_letters_topic,
)

LONGEST_NAME: Final = 249
"""Kafka's own limit."""
_ITSELF: Final = "Headwater itself"
_KAFKAS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_OWN_ENDS: Final = (
    progress_topic(""),
    schemas_topic(""),
    dead_letters_topic(""),
    ddl_topic(""),
    signal_topic(""),
    row_letters_topic(""),
    view_dead_letters_topic(""),
)
"""How topics end that Headwater has for sources and views: also those of others."""


class _Member(NamedTuple):
    label: str
    place: Place
    plain: str
    of_rows: bool = False
    """Whether it is the table's second topic."""


def route_faults(
    source: str, routes: tuple[Route, ...], tables: Iterable[tuple[str, str]]
) -> list[str]:
    """What is wrong with the topics of these ``(schema, table)``."""
    by_name: dict[str, list[_Member]] = defaultdict(list)
    problems: list[str] = []
    for schema, table in tables:
        place, label = place_of(source, routes, schema, table), f"{schema}.{table}"
        plain = table_topic(source, schema, table)
        members = [_Member(label, place, plain)]
        if place.rows_topic:
            members.append(_Member(label, place.beside, plain, of_rows=True))
        for member in members:
            topic, setting = member.place.topic, "rows_topic" if member.of_rows else "topic"
            if reason := _unfit(source, member.place):
                said = f"source.routes: table {label} would have the topic {topic}, {reason}"
                problems.append(one_line(said, f"change the {setting} of route {place.route + 1}"))
            else:
                by_name[_one(topic)].append(member)
    for topic in (schemas_topic(source), progress_topic(source), dead_letters_topic(source)):
        by_name[_one(topic)].append(_Member(_ITSELF, Place(topic), topic))
    for _, members in sorted((one[0].place.topic, one) for one in by_name.values()):
        problems += _shared(members)
    return problems


def _one(topic: str) -> str:
    return topic.replace(".", "_")


def _unfit(source: str, place: Place) -> str:
    """Why a routed topic cannot be one."""
    topic = place.topic
    if place.route < 0:
        return ""
    own = (message_topic(source), transaction_topic(source), ddl_topic(source),
           signal_topic(source))  # fmt: skip
    if topic in _KAFKAS:
        return "which is one of Kafka's own"
    inner = topic.startswith((f"{source}.__", outbox_topic(source, "")))
    inner = inner or topic.endswith(_OWN_ENDS)
    if inner or _one(topic) in map(_one, own):
        return "which is one of Headwater's own"
    if not topic.strip("."):
        return "which Kafka does not allow"
    if len(topic) > LONGEST_NAME:
        return f"which has {len(topic)} characters: Kafka allows {LONGEST_NAME}"
    return ""


def _shared(members: Sequence[_Member]) -> Iterator[str]:
    """What speaks against tables in one topic."""
    if len(members) < 2:
        return
    first, names = members[0].place, " and ".join(one.label for one in members)
    said = f"tables {names} would share the topic {first.topic}"
    routed = [one.place.route for one in members if one.place.route >= 0]
    if not routed or any(one.label == _ITSELF for one in members):
        yield f"{said}. Leave one out with source.exclude, or rename it."
        return
    if len({one.of_rows for one in members}) > 1:
        yield one_line(
            f"source.routes: {said}, events and rows",
            f"change rows_topic of route {routed[-1] + 1}",
        )
    elif len({(one.place.topic, one.place.route) for one in members}) > 1:
        yield one_line(
            f"source.routes: {said}, and not by one route",
            f"name them all in one route, or change the topic of route {routed[0] + 1}",
        )
    elif not first.shared:
        yield one_line(
            f"source.routes: {said}, and route {first.route + 1} does not say that it holds "
            "several tables",
            'set key_field = "__table" there, which tells their keys apart, or put {schema} and '
            "{table} into the topic",
        )
    elif first.key_field and len({_one(one.plain) for one in members}) < len(members):
        yield f"{said}, and {first.key_field} would call them the same. Rename one."


def key_fault(label: str, key: Sequence[str], place: Place) -> tuple[str, str] | None:
    """What speaks against a table's key where its route puts it: the reason and the way out."""
    if place.key_field in key:
        return (
            f"{label}: its key has a column {place.key_field}, which source.routes adds to keys",
            f"set another key_field in route {place.route + 1}",
        )
    if lost := [name for name in place.partition_by if name not in key]:
        named = ", ".join(key) or "no columns"
        near = get_close_matches(lost[0], key, 1)
        meant = f"did you mean {near[0]}? Else " if near else ""
        return (
            f"{label}: partition_by of source.routes names {', '.join(lost)}, which its key does "
            f"not have ({named}): a row whose value changed would go on in another partition, out "
            "of its order",
            f"{meant}name columns of the key: of its primary key, its replica identity's index, or "
            "source.keys",
        )
    return None


def idle_routes(
    source: str, routes: tuple[Route, ...], tables: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Routes that put no table anywhere: what is so, and the way out."""
    used = {place_of(source, routes, *table).route for table in tables}
    for number, route in enumerate(routes):
        if number in used:
            continue
        if any(place_of(source, (route,), *table).route == 0 for table in tables):
            hint = "put it before the others, or remove it"
            yield f"route {number + 1} is not used: earlier routes fit all of its tables", hint
        else:
            hint = "correct its tables or match (of schema.table), or remove it"
            yield f"route {number + 1} fits no table that source.tables chooses", hint


def content_fault(label: str, place: Place) -> tuple[str, str] | None:
    """What speaks against reading a table's topic for its events: the reason and the way out."""
    if place.content.names_source:
        return None
    return (
        f'{label}: its topic {place.topic} has no events: content = "{place.content.content}" in '
        f"route {place.route + 1} of source.routes",
        "remove content there, or capture the table by a second configuration, with another "
        "source.name and slot",
    )


def changed_places(
    source: str,
    routes: tuple[Route, ...],
    tables: Iterable[tuple[str, str]],
    before: Mapping[str, Mapping[str, Any]],
    held: Collection[str],
) -> tuple[str, str] | None:
    """The reason and the way out where a table that is captured would go on in another topic, or
    with other keys, partitions or content. ``before`` is what a mark has of routed tables; ``held``
    are the topics that hold records."""
    for label, was, now in _moved(source, routes, tables, before, held):
        topic = now["topic"]
        what = f"is in topic {was['topic']}, and source.routes sends it to {topic}"
        if was["topic"] == topic:
            what = (
                f"is in topic {topic}, with other keys, partitions or content than source.routes "
            )
            what += "says"
        if _main(was) == _main(now):
            what = f"has rows {_beside(was)}, and source.routes wants them {_beside(now)}"
        return (
            f"{label} {what}: its next changes would not stand behind those that are there",
            "put source.routes back; or run `headwater init --again`, which takes a new snapshot "
            "into the new topic, where consumers have to begin, too",
        )
    return None


def changed_keys(
    source: str,
    routes: tuple[Route, ...],
    tables: Iterable[tuple[str, str]],
    before: Mapping[str, Mapping[str, Any]],
    held: Collection[str],
) -> tuple[str, str] | None:
    """The same where a new snapshot is no way out: one of the table's topics, which was one of its
    topics before, holds records with other keys or values, or in other partitions."""
    for label, was, now in _differing(source, routes, tables, before):
        kept, wanted = _forms(was), _forms(now)
        for topic in wanted:
            if topic in held and kept.get(topic, wanted[topic]) != wanted[topic]:
                return (
                    f"topic {topic} holds records of {label} with other keys, partitions or "
                    "content than source.routes says",
                    "put source.routes back, name another topic there, or delete the topic with "
                    "Kafka's tools",
                )
    return None


def _forms(recorded: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each of a table's topics what must not change there: keys and partitions, which are those
    of both, and content."""
    both = {name: recorded[name] for name in ("key_field", "partition_by") if name in recorded}
    parts = [_main(recorded), *([both | recorded["rows"]] if "rows" in recorded else [])]
    return {one["topic"]: {name: of for name, of in one.items() if name != "topic"}
            for one in parts}  # fmt: skip


def _main(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Of the table's first topic alone."""
    return {name: value for name, value in recorded.items() if name != "rows"}


def _beside(recorded: Mapping[str, Any]) -> str:
    """Where rows stand beside events."""
    if "rows" not in recorded:
        return "in no second topic"
    topic, *rest = recorded["rows"].values()
    return f"in topic {topic} ({', '.join(map(str, rest))})"


def _moved(
    source: str,
    routes: tuple[Route, ...],
    tables: Iterable[tuple[str, str]],
    before: Mapping[str, Mapping[str, Any]],
    held: Collection[str],
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Those of ``_differing`` whose topic holds records."""
    for label, was, now in _differing(source, routes, tables, before):
        if was["topic"] in held:
            yield label, was, now


def _differing(
    source: str,
    routes: tuple[Route, ...],
    tables: Iterable[tuple[str, str]],
    before: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Tables whose records are in topics, or have keys, partitions or values, other than those by
    ``routes``, with what marks have of them and what they would have."""
    for schema, table in tables:
        label, now = f"{schema}.{table}", place_of(source, routes, schema, table)
        was = before.get(label, {"topic": table_topic(source, schema, table)})
        if was != now.recorded:
            yield label, was, now.recorded
