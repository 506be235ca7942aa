"""The state database for those who only look: as it runs, or started for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc.config import Config
from jobs.state.server.connection import Connection
from jobs.state.server.database import running_dsn, state_server
from jobs.state.server.location import home_of, recorded_place
from jobs.state.views.view_status import state_session


@contextmanager
def reading_state(config: Config) -> Iterator[Connection | None]:
    """A session; ours is started for it where no process keeps it. None if there is no state yet.

    Raises ``StateError`` for a state database that cannot be used.
    """
    if running_dsn(config):
        with state_session(config) as conn:
            yield conn
        return
    if recorded_place(home_of(config.apply.state, config.source.name)) is None:
        yield None
        return
    with state_server(config) as server, server.connect(autocommit=True, name="headwater") as conn:
        yield conn
