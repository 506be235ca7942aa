"""All that pages and JSON show of the pipeline: one refresh of each figure for all clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from cdc.config import Config
from cdc.errors import HeadwaterError
from headwater.api.access.principal import Principal
from headwater.api.pipeline.cached import Cached
from headwater.api.problems import ProblemError, unavailable
from headwater.api.state_watch import Watching
from headwater.api.tables import CapturedTable, Tables
from headwater.cli.dead_letters.capture import Listing
from headwater.cli.trace.display import document as trace_document
from headwater.cli.trace.way import OfView, traced
from headwater.cli.view.show import outline
from headwater.pipeline import look_ups
from headwater.pipeline.build_pages import source_page, view_page
from headwater.pipeline.pages import (
    AlarmsPage,
    DeadLetterLine,
    DeadLettersPage,
    SnapshotsPage,
    SourcePage,
    TopicsPage,
    ViewPage,
)
from headwater.pipeline.picture import Pipeline
from views.parse.table_references import tables_read

_FRESH_S: Final = 5.0
_CHECKED_S: Final = 120.0
"""``headwater check`` asks for much, and its answer changes rarely."""
_THREADS: Final = 4
_TRACES: Final = 2
"""At once: each reads Kafka."""
MOST_LETTERS: Final = 200


class Figures:
    """Use from the event loop, between ``Watching.start`` and ``close``. ``reload`` reads the
    configuration as it is now."""

    def __init__(
        self, config: Config, watching: Watching, tables: Tables, reload: Callable[[], Config]
    ) -> None:
        self._config, self._watching, self._tables = config, watching, tables
        self._threads = ThreadPoolExecutor(_THREADS, "look-up")
        self._checks = Cached(lambda: look_ups.checks(config, reload), _CHECKED_S, self._threads)
        self._topics = Cached(self._asked_topics, _FRESH_S, self._threads)
        self._snapshots = Cached(lambda: look_ups.snapshot_lines(config), _FRESH_S, self._threads)
        of_capture = Listing()
        self._letters = Cached(
            lambda: look_ups.dead_letters(config, self._labels(), of_capture),
            _FRESH_S,
            self._threads,
        )
        self._outlines = {
            name: Cached(partial(_outline, config, name), _FRESH_S, self._threads)
            for name in config.views
        }
        self._tracing = 0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def changed(self) -> None:
        """Somebody has acted: what is kept of it is asked for again."""
        kept: list[Cached[Any]] = [self._topics, self._snapshots, self._letters]
        for one in (*kept, *self._outlines.values()):
            one.forget()

    @property
    def picture(self) -> Pipeline:
        return self._watching.picture

    def source(self) -> SourcePage:
        """With the findings of the last check, which is begun again where they are old."""
        kept = self._checks.last()
        checks, at_s = (kept.found, kept.at_s) if kept else ((), None)
        return source_page(self.picture, self._watching.seen, checks, at_s)

    async def topics(self) -> TopicsPage:
        return await self._topics.get()

    async def view(self, name: str) -> ViewPage:
        """Raises ``ProblemError`` for one that is not declared."""
        refuse_unknown(self._config, name)
        found = await self._outlines[name].get()
        return view_page(self._config, name, self.picture, self._watching.seen, found)

    async def snapshots(self) -> SnapshotsPage:
        return await self._snapshots.get()

    async def dead_letters(self, who: Principal, view: str = "") -> DeadLettersPage:
        """As ``who`` may see them; of one view alone, if one is named. Raises ``ProblemError`` for
        one that is not declared."""
        if view:
            refuse_unknown(self._config, view)
        return letters_page(*await self._letters.get(), who, view)

    def alarms(self) -> AlarmsPage:
        return AlarmsPage(self._watching.judged_s, self.picture.alarms)

    async def trace(
        self, who: Principal, table: str, key: Sequence[str], since_s: float | None, records: int
    ) -> dict[str, Any]:
        """What ``headwater trace --json`` prints of a row, as ``who`` may see it, who may see rows
        of the table. Raises what that raises."""
        if self._tracing >= _TRACES:
            raise unavailable("too-many-traces", f"{_TRACES} rows are being traced already")
        self._tracing += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._threads, traced, self._config, table, key, 5, records, since_s
            )
        finally:
            self._tracing -= 1
        views = [_traced_as_seen(self._config, one, who) for one in found.views]
        return trace_document(found._replace(views=views))

    def _labels(self) -> Mapping[str, Sequence[str]]:
        """``schema.table`` by topic."""
        return labels_by_topic(self._tables.all().values())

    def _asked_topics(self) -> TopicsPage:
        seen = self._watching.seen
        read_by: dict[str, list[str]] = {}
        for view in seen.report.views if seen else ():
            for topic in {one.topic for one in view.partitions}:
                read_by.setdefault(topic, []).append(view.view)
        return look_ups.topics(self._config, self._labels(), read_by)


def labels_by_topic(tables: Iterable[CapturedTable]) -> dict[str, list[str]]:
    """``schema.table`` by topic, also by those of rows: of a topic of several all of them. Pure."""
    found: dict[str, list[str]] = {}
    for one in tables:
        for topic in one.topics:
            found.setdefault(topic, []).append(one.label)
    return found


def refuse_unknown(config: Config, view: str) -> None:
    """Raise ``ProblemError`` for a view that is not declared."""
    if view not in config.views:
        known = ", ".join(config.views) or "none"
        hint = (
            f"known: {known}; restart `headwater serve` for one that was declared since it started"
        )
        raise ProblemError(HTTPStatus.NOT_FOUND, "unknown-view", "no such view is declared", hint)


def letters_page(
    at_s: float,
    letters: Sequence[DeadLetterLine],
    problems: tuple[str, ...],
    who: Principal,
    view: str = "",
) -> DeadLettersPage:
    """Of those that are meant the first, as ``who`` may see them. Pure."""
    meant = [one for one in letters if not view or one.view == view]
    shown = tuple(_as_seen(one, who) for one in meant[:MOST_LETTERS])
    return DeadLettersPage(at_s, len(meant), MOST_LETTERS, shown, problems)


def _as_seen(one: DeadLetterLine, who: Principal) -> DeadLetterLine:
    if all(map(who.may_see, one.tables)):
        return one
    return replace(one, id=None, key=None, name=None, cause=None)


def _traced_as_seen(config: Config, one: OfView, who: Principal) -> OfView:
    """A view joins tables, and why a row of it is parked may quote rows of each."""
    tables = tables_read(one.view, config.views[one.view].sql)
    if not one.cause or all(who.may_see(table.name) for table in tables):
        return one
    return one._replace(cause="why is shown to who may see rows of all tables of the view")


def _outline(config: Config, name: str) -> dict[str, Any]:
    try:
        return outline(config, name)
    except HeadwaterError as error:
        return {"problems": [str(error)]}
