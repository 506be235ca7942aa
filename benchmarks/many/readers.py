"""How each view is read: by its readers' ways, for the marks of probes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from redis import Redis

from benchmarks.many.probes import Look, written_by
from benchmarks.many.views import View
from benchmarks.views.probes import InDelta, in_opensearch
from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect

_PROBES: Final = 4
"""The oldest are asked for; the others only when some of these have come."""


@contextmanager
def looks(
    views: Iterable[View], redis: str, opensearch: str, postgres: str, lake: Path
) -> Iterator[Mapping[str, Mapping[str, Look]]]:
    """By store and view, for views that are live; connections are closed at the end."""
    found: dict[str, dict[str, Look]] = {}
    with ExitStack() as opened:
        client = opened.enter_context(Redis.from_url(redis))
        reports = opened.enter_context(connect(postgres, application_name="headwater bench looks"))
        for view in views:
            look: Look
            match view.store:
                case "cache":
                    look = oldest_first(_in_redis(client, view))
                case "reports":
                    look = oldest_first(_in_postgres(reports, view))
                case "search":
                    look = in_opensearch(opensearch, view.name, ("mark",))
                case _:
                    look = InDelta(lake / view.name, "mark")
            found.setdefault(view.store, {})[view.name] = look
        yield found


def oldest_first(look: Callable[[Sequence[int]], list[int]]) -> Look:
    """Ask for a few of the marks, and for all others only when something has come."""

    def some(marks: Sequence[int]) -> list[int]:
        visible = look(marks[:_PROBES])
        come = any(mark >= marks[0] for mark in visible)
        return visible + look(marks[_PROBES:]) if come and marks[_PROBES:] else visible

    return some


def key_of(view: View, mark: int) -> str:
    """The key, as text, of the row that shows a mark."""
    row = written_by(mark)
    return str(row[view.probed if view.probed in row else "number"])


def _in_redis(client: Redis, view: View) -> Callable[[Sequence[int]], list[int]]:
    live: Any = client.get(f"{view.name}@live")
    if live is None:
        raise FatalError(f"Redis does not hold {view.name}")
    prefix = live.decode()

    def look(marks: Sequence[int]) -> list[int]:
        pipe = client.pipeline(transaction=False)
        for mark in marks:
            pipe.hget(f"{prefix}:{key_of(view, mark)}", "doc")
        return [json.loads(found)["mark"] for found in pipe.execute() if found is not None]

    return look


def _in_postgres(conn: Connection, view: View) -> Callable[[Sequence[int]], list[int]]:
    kind = "uuid" if view.probed in ("product", "comment") else "bigint"
    query = f'select mark from public."{view.name}" where {view.key[0]} = any(%s::{kind}[])'

    def look(marks: Sequence[int]) -> list[int]:
        with translated(f"reading {view.name}"):
            found = conn.execute(query.encode(), ([key_of(view, mark) for mark in marks],))
            return [mark for (mark,) in found]

    return look
