"""Proven freshness: views that a running apply compares with their source, some keys at a time.

Each check is ``headwater verify`` of the next keys of a view (``verification.key_walk``). A thread
makes one after the other, and rests four times as long as each took (``cdc.lag.observer``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError, ViewError
from cdc.kafka.broker import Broker
from cdc.lag.observer import Observer
from cdc.lsn import format_lsn
from headwater.cli.verify.state_views import Asked, compared
from headwater.lag.verified import Texts, Verified, read_verified, write_verified
from jobs.generations.view_state import view_directory
from verification.key_walk import KEYS, KeyWalk
from verification.values.canonical_form import Canonical
from verification.view_facts import is_kept_by_state
from verification.view_verification import Report

_WAIT_S: Final = 20.0
"""For a view to come to the snapshot's LSN; one that is later is checked another time."""
_TOLD_KEYS: Final = 20
_REST: Final = 4

log = structlog.get_logger("verify")


@contextmanager
def checked_views(config: Callable[[], Config], names: Sequence[str]) -> Iterator[None]:
    """Check those views, all if there is none, as ``[verify]`` says, until the block ends."""
    checks = Checks(config, names)
    observer = Observer(checks.look, checks.close, rest=_REST)
    observer.start()
    try:
        yield
    finally:
        observer.end()


class Checks:
    """Use from one thread."""

    def __init__(self, config: Callable[[], Config], names: Sequence[str]) -> None:
        self._config, self._names = config, names
        self._due: dict[str, float] = {}
        self._slow: set[str] = set()
        self._told: dict[str, str] = {}

    def look(self) -> None:
        """Check the view that is due first, if one is."""
        config = self._config()
        if not (every_s := config.verify.every):
            return
        for view in self._names or tuple(config.views):
            if view in config.views and view not in self._due:
                held = read_verified(_directory(config, view))
                self._due[view] = held.checked_s + every_s if held else 0.0
        now_s = time.time()
        for view in sorted(self._due, key=self._due.__getitem__):
            if view in config.views and min(self._due[view], now_s + every_s) <= now_s:
                self._due[view] = now_s + every_s
                self._check(config, view)
                return

    def close(self) -> None:
        """Nothing is kept between two checks."""

    def _check(self, config: Config, view: str) -> None:
        directory = _directory(config, view)
        if not directory.is_dir():
            return  # it is not built yet
        held = read_verified(directory) or Verified(0.0)
        walk = KeyWalk(held.given, held.source, held.differing, view not in self._slow)
        try:
            report = _compared(config, view, walk)
        except RetryableError as error:
            self._tell(view, str(error))
            return
        except HeadwaterError as error:
            self._tell(view, str(error))
            write_verified(directory, held._replace(checked_s=time.time(), reason=str(error)))
            return
        self._told.pop(view, None)
        if not walk.searches and view not in self._slow:
            self._slow.add(view)
            log.warning("source_keys_not_searched", view=view, way=f"headwater verify {view}")
        found = noted(held, report, walk, time.time())
        write_verified(directory, found)
        if found.differing != held.differing:
            _log(view, found, report)
        if within_s := config.verify.all_within:
            rounds = max(1.0, walk.total / KEYS)
            self._due[view] = min(self._due[view], time.time() + within_s / rounds)

    def _tell(self, view: str, reason: str) -> None:
        """Once for each reason."""
        if self._told.get(view) != reason:
            self._told[view] = reason
            log.warning("view_not_checked", view=view, reason=reason)


def noted(held: Verified, report: Report, walk: KeyWalk, now_s: float) -> Verified:
    """What is known after a check: keys that differed stay until one finds them equal. Rows that
    it could not compare are not proven. Pure."""
    differing, skipped = _texts(report.differing), _texts(report.skipped)
    differing |= {key: None for key in held.differing if key in skipped}
    keys = report.sampled - len(skipped)
    found = Verified(now_s, report.lsn, keys, held.equal_s, held.equal_lsn, tuple(differing),
                     "", walk.given, walk.source, len(skipped))  # fmt: skip
    return found._replace(equal_s=now_s, equal_lsn=report.lsn) if report.equal else found


def _texts(keys: Sequence[dict[str, Canonical]]) -> dict[Texts, None]:
    return {tuple(map(str, key.values())): None for key in keys}


def _compared(config: Config, view: str, walk: KeyWalk) -> Report:
    if not is_kept_by_state(config, view):
        raise ViewError(
            f"view {view} has no mirrors: it is not checked in the background",
            f"`headwater verify {view}` compares all of it",
        )
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        return compared(config, Asked(view, _WAIT_S, 0, False, walk), broker, lambda _: None)


def _log(view: str, found: Verified, report: Report) -> None:
    lsn, way = format_lsn(found.lsn), f"headwater verify {view} --repair"
    if found.differing:
        keys = report.differing[:_TOLD_KEYS]
        log.error("view_differs", view=view, lsn=lsn, rows=len(found.differing), keys=keys, way=way)
    else:
        log.info("view_equal_again", view=view, lsn=lsn)


def _directory(config: Config, view: str) -> Path:
    return view_directory(config.apply.state, config.source.name, view)
