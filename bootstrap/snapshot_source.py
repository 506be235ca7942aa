"""``bootstrap.build_parts.Snapshots`` over the project's own snapshots on demand."""

from __future__ import annotations

from collections.abc import Callable

from bootstrap.build_parts import Taken
from cdc.config import Config
from cdc.kafka.broker import Broker
from cdc.source.postgres import connect
from snapshots import snapshot_on_demand
from snapshots.job import Silent
from snapshots.refusals import refuse_rest_outliving
from snapshots.status import snapshots
from views.parse.definition import ViewDefinition


class TableSnapshots:
    """Snapshots of one view's tables. ``step`` hears what is being done, ``reading`` how many rows
    were read and how many there will be, about (0: nobody knows). ``despite_forecast`` as of
    ``snapshot_on_demand.Options``."""

    def __init__(
        self,
        config: Config,
        broker: Broker,
        view: str,
        step: Callable[[str], None],
        reading: Callable[[int, int], None] = lambda _rows, _expected: None,
        despite_forecast: bool = False,
    ) -> None:
        self._despite_forecast = despite_forecast
        self._config, self._broker, self._view = config, broker, view
        self._observer = _Observer(step, reading)

    def start(self, definition: ViewDefinition) -> str:
        """One that a killed build had asked for, and not written down, is taken up.

        Only if nothing was read for it yet: its LSN has to be above what Kafka holds now.
        """
        purpose = f"view {self._view}"
        source, tables = self._config.source, _exactly(definition)
        with connect(source.dsn, application_name="headwater view") as conn:
            for one in snapshots(conn, source.name):
                ours = one.options.get("purpose") == purpose and not one.points
                if ours and one.status != "cancelled" and one.options["tables"] == tables:
                    return str(one.id)
        options = snapshot_on_demand.Options(
            purpose=purpose, despite_forecast=self._despite_forecast
        )
        return str(snapshot_on_demand.create(self._config, tables, options))

    def goes_on(self, snapshot: str) -> bool:
        source = self._config.source
        with connect(source.dsn, application_name="headwater view") as conn:
            found = snapshots(conn, source.name, int(snapshot))
        return any(one.status != "cancelled" for one in found)

    def finish(self, snapshot: str) -> Taken:
        if not self._despite_forecast:
            refuse_rest_outliving(self._config, int(snapshot))
        found = snapshot_on_demand.run(self._config, int(snapshot), self._observer)
        topics = tuple(table.topic for table in found.tables if table.topic)
        ends = self._broker.end_offsets(topics)
        records = sum(sum(of_topic.values()) for of_topic in ends.values())
        clean = len(found.points) == 1 and records == found.rows
        return Taken(topics, tuple(found.points), found.rows, clean, found.dead_letters)

    def topics(self, snapshot: str) -> dict[str, str]:
        return snapshot_on_demand.topics(self._config, int(snapshot))

    def discard(self, snapshot: str) -> None:
        source = self._config.source
        with connect(source.dsn, application_name="headwater view") as conn:
            if not snapshots(conn, source.name, int(snapshot)):
                return
        snapshot_on_demand.discard(self._config, int(snapshot))


class _Observer(Silent):
    def __init__(self, step: Callable[[str], None], reading: Callable[[int, int], None]) -> None:
        self._step, self._reading = step, reading
        self._rows = self._expected = 0

    def step(self, what: str) -> None:
        self._step(what)

    def tables(self, expected: dict[str, int]) -> None:
        self._rows, self._expected = 0, sum(expected.values())

    def rows(self, label: str, count: int) -> None:
        del label
        self._rows += count
        self._reading(self._rows, self._expected)


def _exactly(definition: ViewDefinition) -> list[str]:
    """Patterns of ``source.tables`` for exactly the view's tables."""
    tables = sorted({(one.schema, one.table) for one in definition.occurrences})
    return [".".join('"' + part.replace('"', '""') + '"' for part in table) for table in tables]
