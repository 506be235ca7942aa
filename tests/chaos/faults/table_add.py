"""A table that joins the captured ones by ``headwater table add``, which is killed like all else,
while whatever else is done to capture and its servers goes on."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from cdc.lsn import parse_lsn
from stack.guardian import Guardian
from tests.chaos.servers.environment import connect
from tests.chaos.servers.service import UNREACHABLE, ServiceError
from tests.chaos.workload.tables import JOINING
from tests.chaos.workload.truth import NEVER, Truth
from tests.support.commands.deployment import Deployment
from tests.support.servers import forked_command as forked

_LONGEST_S: Final = 300.0
_WAIT_S: Final = 60.0
_AGAIN_S: Final = 0.3
_LOOK_S: Final = 0.1
_RATES: Final = ("300 rows/s", "700 rows/s", "5000 rows/s")
_DONE: Final = "captured already"
"""What it says that was killed when all was done."""
_PUBLISHED: Final = (
    "select pg_current_wal_flush_lsn()::text, exists (select from pg_publication_tables"
    " where schemaname = %s and tablename = %s)"
)


class Joining:
    """Of one seed. ``dsn``: of the source, past its proxy."""

    def __init__(
        self, deployment: Deployment, dsn: str, truth: Truth, guardian: Guardian, seed: int
    ) -> None:
        self.kills = 0
        self._deployment, self._dsn, self._truth = deployment, dsn, truth
        self._guardian = guardian
        self._random = random.Random(f"joining {seed}")
        self._thread = threading.Thread(target=self._run, name="joining", daemon=True)
        self._error = ""
        self._ended = threading.Event()

    @property
    def begun(self) -> bool:
        """Whether it was told to begin."""
        return self._thread.ident is not None

    def begin(self) -> None:
        """From here on the configuration chooses the table, too."""
        self._deployment.tables += (f"{JOINING.schema}.*",)
        self._deployment.write()
        self._truth.joins_lsn = self._look()[0]
        self._thread.start()

    def end(self, pause: Callable[[float], None]) -> None:
        """Returns when the table has joined, and its rows were read. Raises ``ServiceError`` when
        that failed."""
        while self.begun and self._thread.is_alive():
            pause(0.1)
        if self._error:
            raise ServiceError(f"headwater table add: {self._error}")

    def stop(self) -> None:
        """It is not run again."""
        self._ended.set()
        if self.begun:
            self._thread.join(_WAIT_S)

    def _run(self) -> None:
        kills = self._random.choice((0, 1, 1, 2))
        rate = self._random.choice(_RATES)
        deadline = time.monotonic() + _LONGEST_S
        while not self._ended.is_set():
            lasts_s = self._random.uniform(0.2, 4.0) if self.kills < kills else _WAIT_S
            code, said = self._add(rate, lasts_s)
            self._note()
            if code == 0 or _DONE in said:
                return
            if code == 1 and not UNREACHABLE.search(said):
                self._error = said
                return
            if time.monotonic() > deadline:
                self._error = f"not done after {_LONGEST_S:.0f} s: {said}"
                return
            self._ended.wait(_AGAIN_S)

    def _add(self, rate: str, lasts_s: float) -> tuple[int | None, str]:
        """Run it, and kill it when so much time is over; its exit code, and what it said last."""
        log = self._deployment.home / "table.log"
        arguments = ["table", "add", JOINING.label, "--rate", rate]
        with log.open("a", encoding="utf-8") as stream:
            began = stream.tell()
            command = ["--config", str(self._deployment.config), *arguments]
            child = forked.start(command, stream, stream, os.environ)
        self._guardian.end(child.pid)
        deadline = time.monotonic() + lasts_s
        while child.poll() is None and time.monotonic() < deadline and not self._ended.is_set():
            self._note()
            self._ended.wait(_LOOK_S)
        if child.poll() is None:
            self.kills += 1
            child.kill()
        with log.open(encoding="utf-8") as stream:
            stream.seek(began)
            return child.returncode, " ".join(stream.read().strip().splitlines()[-3:])

    def _note(self) -> None:
        """Remember an LSN from which on all changes of the table are published."""
        if self._truth.joined_lsn < NEVER:
            return
        lsn, published = self._look()
        if published:
            self._truth.joined_lsn = lsn

    def _look(self) -> tuple[int, bool]:
        """Where the log ends, and whether the table is published by then."""
        while not self._ended.is_set():
            with suppress(psycopg.Error), connect(self._dsn) as conn:
                row = conn.execute(_PUBLISHED.encode(), (JOINING.schema, JOINING.name)).fetchone()
                assert row is not None
                return parse_lsn(str(row[0])), bool(row[1])
            self._ended.wait(_AGAIN_S)
        return 0, False
