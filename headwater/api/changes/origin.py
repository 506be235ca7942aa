"""What a stream is of: where its rows come from, and the log of the changes that follow them.

A log has partitions, numbers in each, and an id that tells it from the logs before it. A table's is
its topic; a view's is one partition (``view_origin``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cdc.config import Config
from cdc.kafka.broker import Broker
from cdc.protocol.relation import Relation
from headwater.api.changes.log_reader import Log, LogReader, log_now
from headwater.api.changes.logs_now import LogsNow
from headwater.api.changes.ring import Entry
from headwater.api.spool.table_read import Receiver, read_table
from headwater.api.tables import CapturedTable


class Reader(Protocol):
    """Reads a log. Use from one thread at a time; close at the end."""

    def read(
        self, at: Mapping[int, int], timeout_s: float
    ) -> tuple[Sequence[Entry], dict[int, int]]:
        """Some of what stands from ``at`` on, and the next numbers; nothing where nothing comes in
        ``timeout_s``. Raises ``GoneError``."""

    def close(self) -> None: ...


class Origin(Protocol):
    """``label`` names it to people, ``relation`` has its columns and key. ``overlaps``: the log,
    from where a snapshot says, may have changes that were committed below the snapshot's LSN, which
    its rows have."""

    @property
    def label(self) -> str: ...

    @property
    def relation(self) -> Relation: ...

    @property
    def overlaps(self) -> bool: ...

    async def now(self, place: Sequence[int] = ()) -> Log:
        """The log as it is now. Raises ``GoneError`` where there is none any more, or where
        ``place``, a client's numbers of each partition, is of another one of that id;
        ``HeadwaterError`` where it cannot be asked for."""

    def reader(self) -> Reader: ...

    def snapshot(self, receiver: Receiver, going_on: Callable[[], None]) -> Log:
        """Give all rows, as events. Changes follow from the ends of the log that is returned.
        Blocks. ``going_on`` is called from time to time and may raise."""


class TableOrigin:
    """A captured table and its topic."""

    overlaps = True

    def __init__(self, config: Config, logs: LogsNow, table: CapturedTable) -> None:
        self._config, self._logs = config, logs
        self.label, self.relation, self._topic = table.label, table.relation, table.topic

    async def now(self, place: Sequence[int] = ()) -> Log:  # noqa: ARG002
        return await self._logs.of(self._topic)

    def reader(self) -> Reader:
        return LogReader(self._config, self._topic)

    def snapshot(self, receiver: Receiver, going_on: Callable[[], None]) -> Log:
        kafka = self._config.kafka
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            began = log_now(broker, self._topic)  # before the rows: what follows is not in them
        shape = self.relation
        name = ".".join(_exactly(part) for part in (shape.schema, shape.table))
        read_table(self._config, name, receiver, going_on)
        return began


def _exactly(part: str) -> str:
    """As ``source.tables`` names one table: in quotes nothing is special."""
    return '"' + part.replace('"', '""') + '"'
