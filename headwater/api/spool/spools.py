"""Which spool a client gets: a fresh one is shared, so that many clients cost one read of a table.

A spool at LSN L and the log from the offsets that were noted before it are exact together, however
old the spool is, as long as Kafka holds the log. ``snapshot_max_age`` bounds what a new client has
to catch up. One that goes on inside a spool gets that spool, also after the server was killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import structlog

from cdc.config import Config
from cdc.errors import RetryableError, UsageError
from cdc.log_events import LogEvent
from headwater.api.changes.log_reader import Log
from headwater.api.changes.origin import Origin
from headwater.api.spool.spool_file import (
    Spooled,
    SpoolReader,
    SpoolWriter,
    remove,
    remove_unfinished,
    spools_in,
)

_AT_ONCE: Final = 2
"""Tables that are read at the same time."""
_KEPT_S: Final = 600.0
"""For who goes on inside a spool that a newer one has replaced."""

log = structlog.get_logger("serve")


class Spools:
    """Use from the event loop. The folder is this server's alone:
    raises ``UsageError`` where another one has it."""

    def __init__(self, config: Config, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._config, self._folder, self._now = config, folder, now
        self._max_age_s = config.serve.snapshot_max_age
        self._reader = _what_rows_depend_on(config)
        self._ending = threading.Event()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._making: dict[tuple[str, str], asyncio.Task[Spooled]] = {}
        self._lock = _alone(folder)
        remove_unfinished(folder)
        self._spools: dict[str, Spooled] = {}
        for found in spools_in(folder):
            if found.reader == self._reader:
                self._spools[found.id] = found
            else:
                remove(folder, found.id)

    def close(self) -> None:
        """Give up what is being read."""
        self._ending.set()
        self._lock.close()

    def find(self, label: str, spool_id: str, topic_id: str) -> Spooled | None:
        """The spool that a client was reading, if changes can follow it."""
        found = self._spools.get(spool_id)
        if found is None or (found.label, found.topic_id) != (label, topic_id):
            return None
        return found

    def open(self, spooled: Spooled) -> SpoolReader:
        """Raises ``OSError`` where its files are gone."""
        return SpoolReader(self._folder, spooled)

    async def fresh(self, origin: Origin, now: Log) -> Spooled:
        """One for a client that comes now, whose changes ``now`` still holds.

        Raises ``HeadwaterError`` where the rows cannot be read.
        """
        newest = max(self._of(origin.label), key=lambda one: one.made_at_s, default=None)
        if newest is not None and self._is_fresh(newest, origin, now):
            return newest
        of = origin.label, now.topic_id  # who may see one generation of a view may not see another
        task = self._making.get(of)
        if task is None:
            task = asyncio.create_task(self._make(origin))
            self._making[of] = task
            task.add_done_callback(lambda _: self._making.pop(of, None))
        made = await asyncio.shield(task)
        if made.topic_id != now.topic_id:
            raise RetryableError(
                f"{origin.label} was made anew while its rows were read", "connect again"
            )
        return made

    def _of(self, label: str) -> list[Spooled]:
        return [one for one in self._spools.values() if one.label == label]

    def _is_fresh(self, spooled: Spooled, origin: Origin, now: Log) -> bool:
        return (
            self._now() - spooled.made_at_s <= self._max_age_s
            and spooled.topic_id == now.topic_id
            and len(spooled.offsets) == len(now.begin)
            and all(map(int.__ge__, spooled.offsets, now.begin))
            and all(map(int.__le__, spooled.offsets, now.end))
            and spooled.table["schema_id"] == origin.relation.schema_id()
        )

    async def _make(self, origin: Origin) -> Spooled:
        async with self._at_once:
            spooled = await asyncio.to_thread(self._read, origin)
        self._spools[spooled.id] = spooled
        self._forget_old()
        return spooled

    def _read(self, origin: Origin) -> Spooled:
        began_s = time.monotonic()
        writer = SpoolWriter(self._folder, secrets.token_hex(8))
        try:
            began = origin.snapshot(writer, self._going_on)
            made = writer.finish(origin.label, began.topic_id, began.end, self._now(), self._reader)
        except OSError as error:
            writer.abandon()
            raise RetryableError(
                f"serve.spool: {self._folder}: {error.strerror}", "make room there"
            ) from error
        except BaseException:
            writer.abandon()
            raise
        seconds = round(time.monotonic() - began_s, 3)
        log.info(LogEvent.TABLE_SPOOLED, table=origin.label, rows=made.rows, seconds=seconds)
        return made

    def _going_on(self) -> None:
        if self._ending.is_set():
            raise RetryableError("the server is stopping", "connect again")

    def _forget_old(self) -> None:
        """All but the newest of a table, once nobody should need them."""
        newest: dict[str, float] = {}
        for one in self._spools.values():
            newest[one.label] = max(newest.get(one.label, 0.0), one.made_at_s)
        for one in list(self._spools.values()):
            age_s = self._now() - one.made_at_s
            if one.made_at_s < newest[one.label] and age_s > self._max_age_s + _KEPT_S:
                del self._spools[one.id]
                with suppress(OSError):
                    remove(self._folder, one.id)


def _alone(folder: Path) -> IO[bytes]:
    """What keeps other servers out of the folder, until it is closed. Raises ``UsageError``."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        lock = (folder / "lock").open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"serve.spool: another `headwater serve` uses {folder}"
        raise UsageError(message, "set another folder in [serve] of one of the two") from None
    except OSError as error:
        raise UsageError(
            f"serve.spool: {folder}: {error.strerror}", "name a folder that can be written"
        ) from None
    return lock


def _what_rows_depend_on(config: Config) -> str:
    """Rows that were encoded otherwise, as before a column was masked, are not served again."""
    source = config.source
    columns: Mapping[str, object] = {
        label: {name: str(rule) for name, rule in rules.items()}
        for label, rules in source.columns.items()
    }
    keys = [sorted(held.items()) for held in (source.hash_keys, source.encryption_keys)]
    parts = [source.name, source.publication_name, columns, keys, sorted(source.keys.items())]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
