"""Dead letters of views that Spark keeps: the topic ``<view>.dlq``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headwater.cli.common.context import declared
from headwater.cli.dead_letters.entry import Entry, Settled
from jobs.without_mirrors.dead_letters.letter import BEHIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc.config import Config
    from jobs.without_mirrors.dead_letters.letter import Letter


def entries(config: Config, view: str, values: bool = False) -> list[Entry]:
    """Those of the generation that people read, each key's together."""
    from cdc.kafka.broker import Broker
    from jobs.without_mirrors.dead_letters.topic import waiting

    declared(config, view)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        found = waiting(config, broker, view, values)
    return [told(view, letter) for letter in found.open.values()]


def told(view: str, letter: Letter) -> Entry:
    """A letter of a view."""
    return Entry(
        letter.id,
        view,
        letter.topic,
        None if letter.key is None else letter.key.decode(errors="replace"),
        letter.cause or BEHIND,
        _utc(letter.parked_ms),
        {
            "position": None if letter.position is None else letter.position.hex(),
            "bytes": letter.size,
            "time": _utc(letter.timestamp_ms).isoformat(timespec="milliseconds"),
        },
        letter.value,
    )


def settle(config: Config, kind: str, view: str, wanted: Sequence[Entry] | None) -> Settled:
    """``retry`` or ``discard`` those of some keys; None: of all."""
    from cdc.kafka.marks import refuse_known_foreign_topics
    from jobs.spark.session import spark_session
    from jobs.without_mirrors.dead_letters.retry import discard, qualified, retry

    refuse_known_foreign_topics(config)
    keys = None if wanted is None else {one.name for one in wanted}
    if kind == "discard":
        done = discard(config, view, keys)
    else:
        with spark_session(config) as spark:
            done = retry(spark, config, view, keys)
    left = [{"key": key, "cause": cause} for key, cause in done.left.items()]
    return Settled(len(done.settled), len({qualified(one) for one in done.settled}), left)


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
