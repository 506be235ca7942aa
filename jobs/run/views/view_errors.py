"""Why views cannot be kept or built, written for those who look from outside.

A fault of what readers see is that generation's. A build that was refused leaves what readers see
as it is, so its fault stands beside it, until the view is built again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc.errors import HeadwaterError, RetryableError
from jobs.run.views.view_entry import ViewEntry
from jobs.state.server.connection import Connection
from jobs.state.views.view_record import note_error, note_unbuilt


def of_builds(entries: Iterable[ViewEntry]) -> dict[str, HeadwaterError]:
    """Why builds of views end, or ended the last time."""
    found = {one.name: one.build.error if one.build else one.refused for one in entries}
    return {name: error for name, error in found.items() if error is not None}


def note_errors(
    conn: Connection, entries: Iterable[ViewEntry], of_live: Mapping[str, HeadwaterError]
) -> None:
    """Write what has changed since the last time; at the first time all, as a process that was
    killed may have left its own. What passes by itself is not written."""
    entries = list(entries)
    builds = of_builds(entries)
    for one in entries:
        kept, built = _fault(of_live.get(one.name)), _fault(builds.get(one.name))
        told = (kept, built) if one.seen is not None else ("", built or kept)
        if told == one.told:
            continue
        one.told = told
        if one.seen is not None:
            note_error(conn, one.seen, told[0])
        note_unbuilt(conn, one.name, told[1])


def _fault(error: HeadwaterError | None) -> str:
    return "" if error is None or isinstance(error, RetryableError) else str(error)
