"""The state database, opened: ours is started here and stopped at the end, another is asked."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from cdc.config import Config
from cdc.errors import HeadwaterError, RetryableError
from jobs.state.server.apply_lock import BUSY_S, application_name, directory_lock, hold_database
from jobs.state.server.binaries import Binaries, find_binaries, reachable
from jobs.state.server.connection import Connection, connect
from jobs.state.server.data_directory import data_major, initialise, write_configuration
from jobs.state.server.file_descriptors import close_in_children
from jobs.state.server.identity import Identity, claim
from jobs.state.server.location import Place, home_of, prepare_place, recorded_place, release_place
from jobs.state.server.migration import migrate
from jobs.state.server.os_user import Account, server_account
from jobs.state.server.postmaster import (
    Postmaster,
    answers_elsewhere,
    end_left_over,
    running,
    start,
)
from jobs.state.server.requirements import refuse_unfit

OnWait = Callable[[HeadwaterError], None]


class StateServer:
    """A state database that this process keeps. Threads may ask it for sessions at once."""

    def __init__(
        self, dsn: str, embedded: _Embedded | None, lock: Connection, is_new: bool
    ) -> None:
        self.dsn = dsn
        """For ``connect`` in other processes, too."""
        self.is_new = is_new
        """Whether it belonged to no source before: if views were applied already, it was lost."""
        self._embedded = embedded
        self._lock = lock

    @property
    def embedded(self) -> bool:
        return self._embedded is not None

    def connect(self, *, autocommit: bool = False, name: str = "headwater apply") -> Connection:
        """A session; our own server is started again if it has ended.

        Raises ``RetryableError`` while it is away.
        """
        try:
            return connect(self.dsn, autocommit=autocommit, application_name=name)
        except RetryableError:
            if self._embedded is None:
                raise
            self._embedded.revive()
        return connect(self.dsn, autocommit=autocommit, application_name=name)

    def hold(self) -> None:
        """Make sure that this process alone keeps it, also after the session of the lock was lost.

        To be called before a batch. Raises ``StateError`` when another process has it now.
        """
        if not self._lock.closed:
            try:
                self._lock.execute("select 1")
                return
            except psycopg.Error:
                self._lock.close()
        self._lock = self.connect(autocommit=True, name=application_name())
        close_in_children(self._lock)
        hold_database(self._lock)

    def close(self) -> None:
        """Give the lock back."""
        self._lock.close()


@contextmanager
def state_server(
    config: Config,
    source: Identity | None = None,
    on_wait: OnWait = lambda _: None,
    busy_s: float = BUSY_S,
) -> Iterator[StateServer]:
    """Keep the state database of a source: start ours or connect to ``apply.state_dsn``, migrate
    it, and make sure that it is this source's and no other process keeps it.

    ``on_wait`` is told once why a database that is away is waited for, for ``apply.retry_s``. One
    that another process keeps is waited for ``busy_s``.
    ``source`` is the source as it says itself who it is; without it that is not looked at.
    Raises ``StateError`` for what needs a person, ``RetryableError`` for what stayed away.
    """
    if dsn := config.apply.state_dsn:
        lock = _patiently(dsn, config.apply.retry_s, on_wait)
        with _opened(lock, dsn, None, source, busy_s) as server:
            yield server
        return
    home = home_of(config.apply.state, config.source.name)
    with directory_lock(home, busy_s):
        known = recorded_place(home)
        account = server_account(known.data if known else None)
        embedded = _Embedded(prepare_place(home, account), account)
        embedded.start()
        try:
            lock = _session(embedded.place.dsn)
            with _opened(lock, embedded.place.dsn, embedded, source, busy_s) as server:
                yield server
        finally:
            embedded.stop()
            release_place(embedded.place)


def running_dsn(config: Config) -> str:
    """How other commands reach the state database now; empty when ours does not run."""
    if config.apply.state_dsn:
        return config.apply.state_dsn
    place = recorded_place(home_of(config.apply.state, config.source.name))
    if place is None:
        return ""
    found = running(place)
    ready = found.ready if found else answers_elsewhere(place)
    return place.dsn if ready else ""


def delete_state(config: Config) -> None:
    """Stop the embedded server and delete all that it keeps: views are then built anew.

    Raises ``StateError`` while another process keeps it.
    """
    home = home_of(config.apply.state, config.source.name)
    if not home.exists():
        return
    with directory_lock(home):
        if place := recorded_place(home):
            end_left_over(place)
            for folder in (place.socket, place.directory):
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


class _Embedded:
    """The server of ours over its restarts."""

    def __init__(self, place: Place, account: Account | None) -> None:
        self.place = place
        self._account = account
        self._postmaster: Postmaster | None = None
        self._one_at_a_time = threading.Lock()

    def start(self) -> None:
        """Make it ready, first if need be. What an earlier process left behind is ended before."""
        end_left_over(self.place)
        major = data_major(self.place.data)
        binaries = reachable(find_binaries(major), self.place.directory, self._account)
        if major is None:
            initialise(self.place, binaries, self._account)
        self._run(binaries)

    def revive(self) -> None:
        """Start it again if its process has ended."""
        with self._one_at_a_time:
            if self._postmaster is not None and not self._postmaster.alive():
                self._postmaster.stop()
                self.start()

    def stop(self) -> None:
        with self._one_at_a_time:
            if self._postmaster is not None:
                self._postmaster.stop()
                self._postmaster = None

    def _run(self, binaries: Binaries) -> None:
        write_configuration(self.place, binaries)
        self._postmaster = start(self.place, binaries, self._account)


@contextmanager
def _opened(
    lock: Connection,
    dsn: str,
    embedded: _Embedded | None,
    source: Identity | None,
    busy_s: float,
) -> Iterator[StateServer]:
    with lock:
        refuse_unfit(lock, dsn, source)
        hold_database(lock, busy_s)
        migrate(lock)
        is_new = source is not None and claim(lock, source)
        server = StateServer(dsn, embedded, lock, is_new)
        try:
            yield server
        finally:
            server.close()


def _session(dsn: str) -> Connection:
    conn = connect(dsn, autocommit=True, application_name=application_name())
    close_in_children(conn)
    return conn


def _patiently(dsn: str, retry_s: float, on_wait: OnWait) -> Connection:
    told: list[HeadwaterError] = []

    def attempt() -> Connection:
        try:
            return _session(dsn)
        except RetryableError as error:
            if not told:
                told.append(error)
                on_wait(error)
            raise

    retrying = Retrying(
        retry=retry_if_exception_type(RetryableError),
        stop=stop_after_delay(retry_s),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        reraise=True,
    )
    return retrying(attempt)
