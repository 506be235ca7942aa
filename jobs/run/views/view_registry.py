"""The views of a process by their names: taken up when they are declared, let go when they are not.

A view that cannot be kept is tried again from time to time, and at once when its declaration
changes. One that was built stays as it was built, whatever is declared since.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from cdc.config import View
from cdc.errors import ConfigError, HeadwaterError, RetryableError, UsageError
from cdc.log_events import LogEvent
from jobs.generations.declaration import tell_kept
from jobs.run.builds.builder import Generation
from jobs.run.builds.generation_files import GenerationFiles, is_built_from
from jobs.run.builds.view_build import ViewBuild
from jobs.run.process_parts import Parts
from jobs.run.removal import drop_expired
from jobs.run.views.generation_registry import GenerationRegistry
from jobs.run.views.history_recovery import OtherHistories, live_record
from jobs.run.views.switch import switched
from jobs.run.views.view_clock import ViewClock
from jobs.run.views.view_entry import ViewEntry
from jobs.run.views.view_errors import note_errors, of_builds
from jobs.state.feeds.feed_tables import show_feed
from jobs.state.server.connection import Connection
from jobs.state.views.dirty_keys import NEVER
from jobs.state.views.view_record import PAUSED, note_unbuilt

log = structlog.get_logger("apply")


class ViewRegistry:
    """``follow`` and what the engine asks are for its thread; a command has its view to itself."""

    def __init__(
        self,
        parts: Parts,
        generations: GenerationRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self.generations, self._clock = parts, generations, clock
        self._views: dict[str, ViewEntry] = {}
        self._others = OtherHistories(parts, generations)
        self._ticks = ViewClock(parts.config.apply.clock_s, clock)

    # -- what the engine asks ---------------------------------------------------------------

    def follow(self, conn: Connection) -> None:
        """Take up what is declared and not kept, let go of what is not declared any more."""
        try:
            wanted = self._parts.declared()
        except ConfigError as error:
            log.warning(LogEvent.CONFIGURATION_NOT_READ, error=str(error))
            return
        for one in [one for name, one in self._views.items() if name not in wanted]:
            if not one.ordered:
                self._let_go(conn, one)
        for name, view in wanted.items():
            one = self._views.setdefault(name, ViewEntry(name, view))
            if not one.ordered:
                self._follow(conn, one, view)
        self._others.follow(conn)
        self._ticks.follow(conn, self._views.values())
        note_errors(conn, self._views.values(), self.errors())

    def settled(self) -> bool:
        """Whether each view is kept, or cannot be."""
        retry_s = self._parts.config.apply.retry_s
        return all(
            one.kept
            or (one.live is None and one.build is None and not self._parts.builds)
            or (one.error is not None and not isinstance(one.error, RetryableError))
            or (one.error is not None and self._clock() - one.since > retry_s)
            for one in self._views.values()
        )

    def have_reached(self, batch: int) -> bool:
        """Whether all live views that can be kept hold a batch."""
        live = [one.live for one in self._views.values() if one.live and one.kept]
        return all(self.generations.reached(one) >= batch for one in live)

    def errors(self) -> dict[str, HeadwaterError]:
        """Why views cannot be kept now."""
        found = {name: one.error for name, one in self._views.items() if one.error is not None}
        builds = of_builds(one for one in self._views.values() if one.seen is None)
        return found | builds | self.generations.errors()

    def wanted(self) -> list[tuple[str, str]]:
        """Name and SQL of all views that are declared, but for those that were dropped since."""
        dropped = {name for name, one in self._views.items() if one.waits}
        views = self._parts.reload().views
        return [(name, view.sql) for name, view in views.items() if name not in dropped]

    def close(self) -> None:
        """Stop building, and keeping after the turns under way."""
        builds = [one.build for one in self._views.values() if one.build is not None]
        for build in builds:
            build.stop()
        for build in builds:
            build.join()
        self.generations.lanes.end()
        for one in self._views.values():
            one.held.close()

    # -- what commands ask ------------------------------------------------------------------

    def claim(self, name: str, undeclared: View | None = None) -> ViewEntry:
        """A view for a command alone, until ``release``; also one that is not declared any more, as
        it was built. Raises ``UsageError`` for none that is kept, and for one that another command
        is at."""
        if undeclared is not None:
            self._views.setdefault(name, ViewEntry(name, undeclared))
        if (one := self._views.get(name)) is None:
            known = ", ".join(self._views) or "none"
            raise UsageError(
                f"the running `headwater apply` does not maintain view {name}",
                f"declare the view in the configuration of that process; it maintains {known}",
            )
        if one.ordered:
            raise UsageError(
                f"another command is running for view {name}", "wait until it has finished"
            )
        one.ordered = True
        return one

    def release(self, one: ViewEntry) -> None:
        """The command is done with it."""
        if one.build is not None and one.build.done:
            self._built(one, one.build)
        one.ordered = False

    def build(self, one: ViewEntry, hold: bool, new_history: bool = False) -> ViewBuild:
        """Begin to build it as it is declared now."""
        self._hold(one)
        view = self._parts.declared().get(one.name, one.declared)
        one.declared, one.waits, one.refused = view, False, None
        one.build = ViewBuild(self._parts, self.generations, one.name, view, self._show, hold,
                              new_history)  # fmt: skip
        one.build.start()
        return one.build

    def show(
        self,
        conn: Connection,
        one: ViewEntry,
        generation: Generation,
        ready: Callable[[], None],
        missed: bool,
    ) -> None:
        """Let readers see a generation, and keep it in place of the one before. What cannot be
        shown leaves all as it was. ``ready`` as of ``switched``."""
        before, number = one.live, generation.record.generation
        switched(self.generations, one, generation, ready, lambda: self._switch(one, number))
        one.live, one.missed, one.kept, one.error = generation, missed, False, None
        one.seen, one.told = generation.record.id, None
        self.generations.shown(generation)
        try:
            if before is not None:
                self.generations.leave(before)
            self._keep(conn, one)
            drop_expired(conn, GenerationFiles(self._parts, one.name, one.declared))
        except Exception as error:  # readers see it all the same: it is kept with a later try
            self._failed(one, error)

    def open_again(self, conn: Connection, one: ViewEntry) -> None:
        """Keep what readers see over mirrors that were left to be filled again, which it is here:
        it becomes what they say then."""
        if one.live is not None and not self.generations.known.knows(one.live):
            self._open_again(one, one.live)
        if not one.kept:
            self._take_up(conn, one)

    def give_up(self, one: ViewEntry) -> None:
        """Keep nothing of it any more: it is being removed."""
        if one.build is not None:
            one.build.stop()
            one.build.join()
        if one.live is not None:
            self.generations.leave(one.live)
        self.generations.reach.settle()  # else its group could come back behind who removes it
        one.live, one.seen, one.build, one.kept, one.waits = None, None, None, False, True
        one.error = one.refused = None

    # -- its own ----------------------------------------------------------------------------

    def _follow(self, conn: Connection, one: ViewEntry, view: View) -> None:
        if one.build is not None and one.build.done:
            self._built(one, one.build)
        if view != one.declared:
            self._declared(one, view)
        known = self.generations.known
        # A build that shows what it has built is at it itself.
        if one.live is not None and (one.kept or one.build is None) and not known.knows(one.live):
            self._open_again(one, one.live)
        if one.kept or one.build is not None or one.waits or self._clock() < one.due:
            return
        try:
            self._take_up(conn, one)
        except Exception as error:
            self._failed(one, error)
        else:
            one.error = None
            one.tries = 0 if one.kept else one.tries

    def _open_again(self, one: ViewEntry, live: Generation) -> None:
        """Batches know what readers see as another one, or not at all."""
        followed, fault = self.generations.known.current(live), self.generations.known.fault(live)
        if followed is None:
            self.generations.leave(live)
        elif (keeper := self.generations.lanes.detach(live)) is not None:
            keeper.close()
            # It may have written rows of keys that are the other one's.
            one.missed = followed.history is None
        one.live, one.kept, one.due = followed, False, 0.0
        if fault is not None:
            self._failed(one, fault)

    def _declared(self, one: ViewEntry, view: View) -> None:
        """Its declaration has changed."""
        one.declared, one.due = view, 0.0
        if one.build is not None and one.seen is None:
            one.build.stop()  # and is begun again, as it is declared now
        elif one.live is not None and not is_built_from(one.live.record, view):
            tell_kept(one.name, one.live.record.generation)

    def _take_up(self, conn: Connection, one: ViewEntry) -> None:
        self._hold(one)
        if one.live is None:
            files = GenerationFiles(self._parts, one.name, one.declared)
            record = live_record(conn, files, self.generations, one.declared)
            if record is None:
                if self._parts.builds:
                    self.build(one, hold=False)
                return
            one.seen = record.id
            files.refuse_lost(record)
            if not is_built_from(record, one.declared):
                tell_kept(one.name, record.generation)
            one.live = self.generations.reopened(conn, record, one.declared)
            one.missed = one.live.record.state == PAUSED
            self.generations.shown(one.live)
        self._keep(conn, one)
        log.info(LogEvent.VIEW_STARTED, view=one.name, generation=one.live.record.generation)

    def _keep(self, conn: Connection, one: ViewEntry) -> None:
        assert one.live is not None, "only what is live is kept so"
        show_feed(conn, one.name, one.live.record.id)
        sure_from = self.generations.made_up(conn, one.live) if one.missed else NEVER
        one.missed = False
        self.generations.lanes.add(one.live, one.declared, sure_from)
        one.kept = True

    def _show(self, conn: Connection, generation: Generation, ready: Callable[[], None]) -> None:
        """For builds."""
        self.show(conn, self._views[generation.record.name], generation, ready, missed=False)

    def _switch(self, one: ViewEntry, number: int) -> None:
        files = GenerationFiles(self._parts, one.name, one.declared)
        try:
            files.switch(number)
        except HeadwaterError:
            live = files.read().live  # asks the store what became of it
            if live is None or live.number != number:
                raise

    def _built(self, one: ViewEntry, build: ViewBuild) -> None:
        one.build, one.refused = None, None if build.stopped else build.error
        if one.seen is None:
            one.waits = build.hold
            if build.error is not None and not build.stopped:
                self._failed(one, build.error)

    def _failed(self, one: ViewEntry, error: Exception) -> None:
        one.failed(error, self._clock())

    def _let_go(self, conn: Connection, one: ViewEntry) -> None:
        if one.build is not None:
            one.build.stop()
            if not one.build.done:
                return  # it is let go with the next look
        del self._views[one.name]
        if one.live is not None:
            self.generations.leave(one.live)
        one.held.close()
        if one.told and one.told[1]:
            note_unbuilt(conn, one.name, "")
        log.info(LogEvent.VIEW_LET_GO, view=one.name)

    def _hold(self, one: ViewEntry) -> None:
        one.hold(self._parts.directory(one.name), self._parts.config.apply.retry_s)
