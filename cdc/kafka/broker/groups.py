"""Consumer groups, which hold how far each view has come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from kafka import errors as kafka_errors

from cdc.errors import LogError
from cdc.kafka.broker.connection import Connection

_DONE = "OK"
_EMPTY = ("Empty", "Dead")


def existing_groups(connection: Connection, groups: Collection[str]) -> list[str]:
    """Those of some groups that there are."""
    listed = connection.call("listing consumer groups", lambda admin: admin.list_groups())
    return sorted({group["group_id"] for group in listed} & set(groups))


def groups_of(connection: Connection, prefix: str) -> list[str]:
    """All whose names begin so."""
    listed = connection.call("listing consumer groups", lambda admin: admin.list_groups())
    return sorted(g["group_id"] for g in listed if g["group_id"].startswith(prefix))


def active_groups(connection: Connection, groups: Collection[str]) -> list[str]:
    """Those of some groups that have members."""
    listed = connection.call("listing consumer groups", lambda admin: admin.list_groups())
    return sorted(
        group["group_id"]
        for group in listed
        if group["group_id"] in groups and group.get("group_state") not in _EMPTY
    )


def delete_groups(connection: Connection, groups: Sequence[str]) -> None:
    """Delete groups, which may be gone by now. Raises ``LogError`` for one with members."""

    def ask(admin: Any) -> None:
        for group, said in admin.delete_groups(list(groups)).items():
            if said == kafka_errors.NonEmptyGroupError.__name__:
                raise LogError(
                    f"consumer group {group} has active members",
                    "stop its consumers, then try again",
                )
            if said not in (_DONE, kafka_errors.GroupIdNotFoundError.__name__):
                raise getattr(kafka_errors, said)(group)

    connection.call("deleting consumer groups", ask)


def topics_of(connection: Connection, groups: Collection[str]) -> dict[str, list[str]]:
    """The topics of which some groups hold offsets; without groups that hold none."""
    existing = dict.fromkeys(existing_groups(connection, groups))
    if not existing:
        return {}
    found = connection.call(
        "reading committed offsets", lambda admin: admin.list_group_offsets(existing)
    )
    return {group: sorted({at.topic for at in of}) for group, of in found.items() if of}


def leave(connection: Connection, group: str, is_own: Callable[[str], bool]) -> bool:
    """As ``Broker.leave_group`` says."""
    topics = topics_of(connection, [group]).get(group, [])
    own = [topic for topic in topics if is_own(topic)]
    if len(own) == len(topics):
        if existing_groups(connection, [group]):
            delete_groups(connection, [group])
        return True
    if own:
        _forget(connection, group, own)
    return False


def _forget(connection: Connection, group: str, topics: Collection[str]) -> None:
    """Delete what a group holds of some topics."""

    def ask(admin: Any) -> None:
        held = admin.list_group_offsets({group: None})[group]
        own = [at for at in held if at.topic in topics]
        for at, fault in admin.delete_group_offsets(group, own).items():
            if fault is not kafka_errors.NoError:
                raise fault(f"{group} {at.topic}-{at.partition}")

    connection.call("deleting committed offsets", ask)
