"""Proven freshness: views that a running apply compares with their source, some keys at a time.

Each check is ``headwater verify`` of the next keys of a view (``verification.key_walk``). A thread
makes one after the other, and rests four times as long as each took (``cdc.lag.observer``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from cdc.config import Config
from cdc.config.verify import Verify
from cdc.errors import HeadwaterError, RetryableError, ViewError
from cdc.kafka.event_reader import event_broker
from cdc.lag.observer import Observer
from cdc.log_events import LogEvent
from cdc.lsn import format_lsn
from headwater.cli.verify.state_views import Asked, compared
from headwater.lag.verified import Texts, Verified, read_verified, write_verified
from jobs.generations.generation_record import read_generations
from jobs.generations.view_state import view_directory
from verification.key_walk import KEYS, KeyWalk
from verification.report import Report
from verification.values.canonical_form import Canonical
from verification.view_facts import is_kept_by_state

_WAIT_S: Final = 20.0
"""For a view to come to the snapshot's LSN; one that is later is checked another time."""
_TOLD_KEYS: Final = 20
_REST: Final = 4
_SOON_S: Final = 60.0
"""After a check that was not possible, and while rows differ, which somebody may repair at any
time: the next one is made then, if not earlier."""

log = structlog.get_logger("verify")


@contextmanager
def checked_views(config: Callable[[], Config], names: Sequence[str]) -> Iterator[None]:
    """Check those views, all if there is none, as ``[verify]`` says, until the block ends."""
    checks = Checks(config, names)
    observer = Observer(checks.look, checks.close, rest=_REST, clock=time.monotonic)
    observer.start()
    try:
        yield
    finally:
        observer.end()


class Tried(NamedTuple):
    """The last attempt to check a view: when it ended, in seconds since 1970, how many keys the
    view has, about, and whether it has to be tried again."""

    at_s: float = 0.0
    keys: int = 0
    failed: bool = False


class Checks:
    """Use from one thread."""

    def __init__(self, config: Callable[[], Config], names: Sequence[str]) -> None:
        self._config, self._names = config, names
        self._tried: dict[str, Tried] = {}
        self._slow: set[str] = set()
        self._told: dict[str, str] = {}

    def look(self) -> None:
        """Check the view that is due first, if one is."""
        config = self._config()
        if not config.verify.every:
            return
        tried = {view: self._tried.get(view, Tried()) for view in self._names or config.views}
        due = {
            view: due_s(config.verify, read_verified(_directory(config, view)), last)
            for view, last in tried.items()
            if view in config.views
        }
        view = min(due, key=due.__getitem__, default="")
        if view and due[view] <= time.time():
            self._tried[view] = Tried(time.time(), failed=True)  # however it ends
            self._tried[view] = self._check(config, view)

    def close(self) -> None:
        """Nothing is kept between two checks."""

    def _check(self, config: Config, view: str) -> Tried:
        directory = _directory(config, view)
        if not directory.is_dir():
            return Tried(time.time(), failed=True)  # it is not built yet
        live = read_generations(directory).live_number  # before: it may be another one meanwhile
        held = (read_verified(directory) or Verified(0.0))._replace(generation=live)
        walk = KeyWalk(held.given, held.source, held.differing, view not in self._slow)
        try:
            report = _compared(config, view, walk)
        except RetryableError as error:
            self._tell(view, str(error))
            return Tried(time.time(), failed=True)
        except HeadwaterError as error:
            self._tell(view, str(error))
            write_verified(directory, held._replace(checked_s=time.time(), reason=str(error)))
            return Tried(time.time())
        self._told.pop(view, None)
        if not walk.searches and view not in self._slow:
            self._slow.add(view)
            log.warning(
                LogEvent.SOURCE_KEYS_NOT_SEARCHED, view=view, way=f"headwater verify {view}"
            )
        found = noted(held, report, walk, time.time())
        write_verified(directory, found)
        if found.differing != held.differing:
            _log(view, found, report)
        return Tried(time.time(), walk.total)

    def _tell(self, view: str, reason: str) -> None:
        """Once for each reason."""
        if self._told.get(view) != reason:
            self._told[view] = reason
            log.warning(LogEvent.VIEW_NOT_CHECKED, view=view, reason=reason)


def due_s(verify: Verify, held: Verified | None, tried: Tried) -> float:
    """When a view is to be checked next, in seconds since 1970. Pure."""
    wait_s = verify.every
    if verify.all_within:
        wait_s = min(wait_s, verify.all_within / max(1.0, tried.keys / KEYS))
    if held is None or held.differing or tried.failed:
        wait_s = min(wait_s, _SOON_S)
    return max(tried.at_s, held.checked_s if held else 0.0) + wait_s


def noted(held: Verified, report: Report, walk: KeyWalk, now_s: float) -> Verified:
    """What is known after a check: keys that differed stay until one finds them equal. Rows that
    it could not compare are not proven. Pure."""
    differing, skipped = _texts(report.differing), _texts(report.skipped)
    differing |= {key: None for key in held.differing if key in skipped}
    keys = report.sampled - len(skipped)
    found = held._replace(
        checked_s=now_s,
        lsn=report.lsn,
        keys=keys,
        differing=tuple(differing),
        reason="",
        given=walk.given,
        source=walk.source,
        skipped=len(skipped),
    )
    return found._replace(equal_s=now_s, equal_lsn=report.lsn) if report.equal else found


def _texts(keys: Sequence[dict[str, Canonical]]) -> dict[Texts, None]:
    return {tuple(map(str, key.values())): None for key in keys}


def _compared(config: Config, view: str, walk: KeyWalk) -> Report:
    if not is_kept_by_state(config, view):
        raise ViewError(
            f"view {view} is not kept in the state database: it is not checked in the background",
            f"`headwater verify {view}` compares all of it",
        )
    with event_broker(config) as broker:
        return compared(config, Asked(view, _WAIT_S, 0, False, walk), broker, lambda _: None)


def _log(view: str, found: Verified, report: Report) -> None:
    lsn, way = format_lsn(found.lsn), f"headwater verify {view} --repair"
    if found.differing:
        keys = report.differing[:_TOLD_KEYS]
        log.error(
            LogEvent.VIEW_DIFFERS, view=view, lsn=lsn, rows=len(found.differing), keys=keys, way=way
        )
    else:
        log.info(LogEvent.VIEW_EQUAL_AGAIN, view=view, lsn=lsn)


def _directory(config: Config, view: str) -> Path:
    return view_directory(config.apply.state, config.source.name, view)
