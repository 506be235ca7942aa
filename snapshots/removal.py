"""Snapshots that are over: their topics and records are deleted when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cdc.config import Config
from cdc.errors import SourceError
from cdc.source.postgres import connect
from snapshots.snapshot_on_demand import discard
from snapshots.status import Standing, snapshot


class Dropped(NamedTuple):
    """A snapshot that is gone, as it stood, and the topics that went with it."""

    was: Standing
    topics: list[str]


def drop(config: Config, ids: Sequence[int], awaited: Mapping[str, str]) -> list[Dropped]:
    """Delete snapshots that are complete or cancelled. ``awaited``: those that a build of a view
    has still to load, with the view.

    Raises ``SourceError`` for one that is not there or has to stay, before any is deleted. Killed
    midway, the same call deletes the rest.
    """
    with connect(config.source.dsn, application_name="headwater snapshot") as conn:
        found = [snapshot(conn, config.source.name, id_) for id_ in dict.fromkeys(ids)]
    for one in found:
        _refuse_needed(one, awaited.get(str(one.id)))
    return [Dropped(one, discard(config, one.id)) for one in found]


def _refuse_needed(one: Standing, view: str | None) -> None:
    if one.kind == "initial":
        raise SourceError(
            f"snapshot {one.id} is the initial one: the captured tables depend on it",
            "run `headwater init --again` to replace it; it cannot be dropped",
        )
    if one.status == "running":
        raise SourceError(
            f"snapshot {one.id} is running", f"run `headwater snapshot cancel {one.id}` to end it"
        )
    if one.status not in ("complete", "cancelled"):
        raise SourceError(
            f"snapshot {one.id} is {one.status}",
            f"run `headwater snapshot resume {one.id}` to continue it, or run `headwater "
            f"snapshot cancel {one.id}` to end it",
        )
    if one.joining and one.complete:
        raise SourceError(
            f"snapshot {one.id} added {', '.join(one.joining)} to the stream",
            "keep it: it has no topics and records that these tables are complete",
        )
    if view is not None and one.complete:
        raise SourceError(
            f"view {view} is being built from snapshot {one.id}",
            f"run `headwater view rebuild {view}` to continue, or `headwater view drop {view}` "
            "to abandon it",
        )
