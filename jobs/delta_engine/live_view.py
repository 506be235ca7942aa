"""The live generation of a view over mirrors, written apart from its stream.

Rows are made anew from the mirrors, which hold the newest state that was applied. So nothing that
came meanwhile has to be left out, as it has where rows of the source are written
(``jobs.without_mirrors.replay.repair``): what comes once the stream goes on is a later attempt, and
goes over them.

They stand at the LSN that they were found wrong at, behind every attempt so far: over whatever the
stream has written, and over what somebody else wrote that counts as older than the source. An index
request by hand, say, adds one to the version that OpenSearch compares, which is an LSN. A row that
is deleted is deleted as any other: an older write of it cannot come, for whatever comes again makes
it of the mirrors, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from pyspark.sql import SparkSession

from cdc.config import Config
from cdc.kafka.broker import Broker
from jobs.delta_engine.keeper import MirroredKeeper
from jobs.generations.live_generation import Standing, standing
from jobs.generations.live_view_lock import live_held
from jobs.generations.view_state import view_directory
from jobs.sinks.stores import open_sink


class LiveMirrors:
    """The generation that people read; ``number`` is what was live before."""

    def __init__(self, spark: SparkSession, config: Config, name: str, number: int) -> None:
        self._spark, self._config, self._name, self._number = spark, config, name, number

    def make_anew(self, lsn: int, keys: Sequence[Mapping[str, object]]) -> None:
        """Make the rows of some keys what the mirrors say, at ``lsn``. The view's stream is held
        meanwhile.

        A row that cannot be made or stored is parked, as by the stream. Raises as ``live_held``
        does, and what Kafka and the store raise; then as much of it is done as is.
        """
        config = self._config
        directory = view_directory(config.apply.state, config.source.name, self._name)
        with live_held(directory, config.apply.retry_s, self._number):
            live = standing(None, config, self._name, True)
            assert live is not None, "it was there before the locks were taken"
            with live_keeper(self._spark, config, live) as keeper:
                keeper.make_anew(keys, lsn)


@contextmanager
def live_keeper(spark: SparkSession, config: Config, live: Standing) -> Iterator[MirroredKeeper]:
    """What keeps the live generation, open, for whoever holds its stream."""
    definition, retry_s = live.definition, config.apply.retry_s
    declared, store = config.views.get(definition.name), config.store(definition.store)
    with (
        Broker(config.kafka.bootstrap_servers, config.kafka) as broker,
        closing(open_sink(store, definition.name, spark, retry_s, live.number, declared)) as sink,
        closing(MirroredKeeper(spark, config, definition, live.state, sink, broker)) as keeper,
    ):
        live.state.refuse_lost(definition, sink.prepare(keeper.read(), definition.key))
        keeper.open(False, {})
        yield keeper
