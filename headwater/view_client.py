"""Views as an application asks them: waiting until they hold what was committed, and how late they
are. ``headwater`` is where applications import it from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cdc.config import Config, load_config
from cdc.errors import HeadwaterError, RetryableError, UsageError, ViewError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.marks import refuse_other_database
from cdc.lsn import format_lsn, parse_lsn
from cdc.registry.schemas import registry_of, values_of
from cdc.source.position import CURRENT_LSN, nudge
from cdc.source.position import current_lsn as lsn_of
from cdc.source.postgres import Connection, connect
from cdc.source.slot import SourceIdentity, identify
from headwater.lag.view_lag import ViewLag, ViewLags
from verification.late_view_errors import Standing, idle, said, way_out
from verification.view_facts import view_facts
from verification.view_positions import (
    Lacking,
    NotReachedError,
    applied_below,
    wait_until_applied,
)


class DbConnection(Protocol):
    """As of the DB-API: psycopg 3 and 2 among others."""

    def cursor(self) -> Any: ...

    def rollback(self) -> Any: ...


def current_lsn(connection: DbConnection) -> str:
    """The LSN below which everything stands that this session has seen committed.

    To be asked after COMMIT, of the source's primary. Raises ``UsageError`` inside a transaction:
    what that commits will stand higher. Ends the transaction that the question itself begins.
    """
    if _in_transaction(connection):
        raise UsageError("the transaction is not committed yet", "call current_lsn after COMMIT")
    cursor = connection.cursor()
    try:
        cursor.execute(CURRENT_LSN)
        row = cursor.fetchone()
    finally:
        cursor.close()
    if _in_transaction(connection):
        connection.rollback()
    return str(next(iter(row.values())) if isinstance(row, Mapping) else row[0])


def _in_transaction(connection: DbConnection) -> bool:
    """What psycopg knows without asking; False where nobody knows."""
    info = getattr(connection, "info", None)
    return bool(getattr(info, "transaction_status", None))


class Reached(NamedTuple):
    """Views hold everything that was committed below ``lsn``, but for the rows of parked keys:
    ``parked`` counts those, by view. ``seconds`` is how long it took all of them, ``each`` how long
    each."""

    lsn: int
    seconds: float
    parked: dict[str, int]
    each: Mapping[str, float] = MappingProxyType({})


class Views:
    """The views of a configuration, to be waited for and asked how late they are.

    It connects when it is first used, and keeps the connections: make one for each thread, and
    close it at the end.
    """

    def __init__(self, config: Config | Path | str = "headwater.toml") -> None:
        """Raises ``ConfigError`` for a file that is wrong."""
        self._config = config if isinstance(config, Config) else load_config(Path(config))
        self._broker = Broker(self._config.kafka.bootstrap_servers, self._config.kafka)
        self._values = values_of(registry_of(self._config))
        self._conn: Connection | None = None
        self._here: SourceIdentity | None = None
        self._met = False
        self._facts = view_facts(self._config, self._broker)
        self._lags = ViewLags(self._config)

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release connections. The next call connects again."""
        self._broker.close()
        self._lags.close()
        self._disconnect()

    def lag(self, *views: str) -> Mapping[str, ViewLag]:
        """How far ``views`` are behind the source, by their names; without any, all that are
        declared.

        The first call takes up to three seconds while something is behind, as ``headwater lag``
        does; later ones take one look, and compare it with those before. Raises ``UsageError`` for
        a view that is not declared, ``RetryableError`` while the source or Kafka does not answer,
        ``LogError`` where the topics are of another database than the source or are missing.
        """
        return self._lags.look(views)

    def wait(
        self,
        *views: str,
        lsn: int | str | None = None,
        timeout_s: float = 10.0,
        ahead: bool = False,
        on_wait: Callable[[str], None] = lambda _: None,
        on_idle: Callable[[str], None] = lambda _: None,
    ) -> Reached:
        """Return when ``views`` hold everything that was committed below ``lsn``.

        Without ``lsn``: what is committed by now. ``on_idle`` is told, once of each, and of several
        in a line, of views that nobody applies now. Raises ``NotReachedError`` when it takes longer
        than ``timeout_s``, ``StoppedError`` at once for a view that a fault has ended;
        ``UsageError`` for a view that is not declared, for what is no LSN, and, unless ``ahead``,
        for one that the source has not reached; ``ViewError`` for a view of a table that is not
        captured; ``LogError`` where the topics are of another database than the source.
        """
        began = time.monotonic()
        topics = {view: self._facts.topics(view) for view in dict.fromkeys(views)}
        if not topics:
            raise UsageError("no view to wait for", "name at least one view")
        if lsn is None:
            goal = self._now()
        else:
            goal = parsed(lsn)
            self._meet()
        deadline = began + timeout_s

        def on_pause() -> None:
            self._look(goal, ahead)

        told: set[str] = set()
        each: dict[str, float] = {}

        def on_lacking(lacking: Lacking) -> None:
            for view in topics.keys() - lacking.keys() - each.keys():
                each[view] = time.monotonic() - began
            for view in lacking:
                self._facts.refuse_stopped(view, lacking)
            news = [view for view in lacking if view not in told]
            told.update(news)
            for line in idle({view: self._facts.applied(view) for view in news}):
                on_idle(line)

        source = self._config.source.name
        try:
            ends = wait_until_applied(
                self._broker, source, topics, goal, deadline, on_wait, on_pause, on_lacking,
                on_idle, self._refuse_foreign,
            )  # fmt: skip
        except NotReachedError as error:
            if not error.lacking:
                raise
            found = [
                one
                for one in self.standings(error.lacking)
                if one.below is None or one.below < goal  # else only what came later is lacking
            ]
            if found:
                raise _late(found, goal, error.lacking) from None
            ends = error.ends
        for view, of_view in topics.items():
            _check_captured(view, of_view, ends)
        parked = {view: count for view in topics if (count := self.parked(view))}
        seconds = time.monotonic() - began
        return Reached(goal, seconds, parked, dict.fromkeys(topics, seconds) | each)

    def standings(self, lacking: Lacking) -> list[Standing]:
        """Of the views that were not there in time."""
        return [
            Standing(
                view,
                applied_below(
                    self._broker,
                    self._config.source.name,
                    view,
                    self._facts.topics(view),
                    self._values,
                ),
                sum(one.records for one in behind),
                self.parked(view),
                self._facts.applied(view),
            )
            for view, behind in lacking.items()
        ]

    def parked(self, view: str) -> int:
        """How many keys of a view wait as dead letters."""
        return self._facts.parked(view)

    def _meet(self) -> None:
        """Learn once who the source is, whose LSNs are waited for. One that cannot be reached is
        not needed."""
        if not self._met:
            self._met = True
            with suppress(HeadwaterError):
                self._now()

    def _refuse_foreign(self, mark: Mark) -> None:
        if self._here is not None:
            refuse_other_database(self._config.source.name, mark, self._here)

    def _look(self, lsn: int, ahead: bool) -> None:
        """Kafka does not hold ``lsn`` yet: refuse what the source has not, and hurry what it has.

        A source that cannot be reached now is not needed: Kafka will say when it is there.
        """
        try:
            now = self._now()
            if lsn > now and not ahead:
                raise UsageError(
                    f"LSN {format_lsn(lsn)} is ahead of the source, which is at {format_lsn(now)}",
                    "use pg_current_wal_insert_lsn() of the source itself, after COMMIT; "
                    "`headwater wait --ahead` and ahead=True in Python wait for a future LSN",
                )
            assert self._conn is not None
            nudge(self._conn)
        except RetryableError:
            self._disconnect()

    def _now(self) -> int:
        """Where the source is; a connection that was lost meanwhile is made anew."""
        held = self._conn is not None
        try:
            if self._conn is None:
                self._conn = connect(self._config.source.dsn, application_name="headwater wait")
                self._here = identify(self._conn)
            return lsn_of(self._conn)
        except RetryableError:
            self._disconnect()
            if not held:
                raise
        return self._now()

    def _disconnect(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def _late(found: Sequence[Standing], goal: int, lacking: Lacking) -> NotReachedError:
    message = "; ".join(said(one, goal) for one in found)
    names = {one.view for one in found}
    left = {view: behind for view, behind in lacking.items() if view in names}
    return NotReachedError(message, way_out(found), left)


def _check_captured(view: str, topics: Sequence[str], ends: Offsets) -> None:
    if unknown := [topic for topic in topics if topic not in ends]:
        raise ViewError(
            f"view {view}: capture does not publish {unknown[0]}",
            "add its table to source.tables, then run `headwater table add`",
        )


def parsed(lsn: int | str) -> int:
    """An LSN as a number. Raises ``UsageError`` for what is none."""
    if isinstance(lsn, int):
        return lsn
    try:
        return parse_lsn(lsn.strip())
    except ValueError:
        raise UsageError(f"{lsn!r} is not an LSN", "write it like 0/16B3748") from None
