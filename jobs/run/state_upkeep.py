"""What the state database is relieved of from time to time: old batches, keys of deleted rows,
indexes that no view needs any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import structlog

from cdc.config import Config
from cdc.kafka.broker import Offsets
from cdc.log_events import LogEvent
from jobs.run.stream.tombstone_expiry import TombstoneExpiry
from jobs.run.tables.mirrored_tables import MirroredTables
from jobs.run.views.group_offsets import GroupOffsets
from jobs.spark.garbage_collector import give_back_memory
from jobs.state.batch.stream_offsets import forget_batches
from jobs.state.feeds.alert_upkeep import forget_alerts
from jobs.state.feeds.feed_log import trim_logs
from jobs.state.mirrors.indexes import drop_spare_indexes
from jobs.state.server.connection import Connection

log = structlog.get_logger("apply")


def trim_changes(conn: Connection, config: Config) -> None:
    """Let go of changes of views that are no longer kept for readers, and of alerts over them that
    nobody declares or reads any more."""
    declared = [name for name, alert in config.alerts.rows.items() if alert.view]
    for alert in forget_alerts(conn, config.source.name, declared):
        log.info(LogEvent.ROW_ALERT_FORGOTTEN, alert=alert)
    trim_logs(conn, config.apply.keep_changes, config.apply.keep_changes_s)


@dataclass(slots=True)
class StateUpkeep:
    """``changing`` keeps batches out meanwhile; ``ends`` tells where the stream's topics end."""

    tables: MirroredTables
    reach: GroupOffsets
    changing: Callable[[], AbstractContextManager[Connection]]
    ends: Callable[[], Offsets]
    _expiry: TombstoneExpiry = field(default_factory=TombstoneExpiry, init=False)

    def look_after(self, conn: Connection) -> None:
        """Raises ``RetryableError`` for what passes."""
        give_back_memory()
        forget_batches(conn, self.reach.lowest())
        self._expiry.expire(conn, self.tables.filled(conn).values(), self.ends)
        with self.changing() as state:
            if dropped := drop_spare_indexes(state):
                log.info(LogEvent.INDEXES_DROPPED, count=len(dropped))

    def topics_recreated(self) -> None:
        """The ends that it had noted are of topics before."""
        self._expiry = TombstoneExpiry()
