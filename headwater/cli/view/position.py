"""How far a view is: its position, its lag, and the replay that it is in."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cdc.lsn import format_lsn

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.kafka.broker import Broker

Document = dict[str, Any]


def reached(config: Config, name: str, topics: list[str], broker: Broker) -> Document:
    """How far a view is that reads these topics."""
    from cdc.registry.schemas import registry_of, values_of
    from headwater.cli.lag.display import proof
    from headwater.lag.document import verified_document
    from headwater.lag.watch import LagWatch
    from verification.view_positions import applied_below

    below = applied_below(broker, config.source.name, name, topics, values_of(registry_of(config)))
    with closing(LagWatch(lambda: config, [name])) as looks:
        seen = looks.settled()
    for error in seen.unmeasured.values():
        raise error
    (lag,) = seen.report.views
    committed: dict[str, dict[int, int]] = {}
    for one in lag.partitions:
        committed.setdefault(one.topic, {})[one.partition] = one.committed or 0
    return {
        "below_lsn": None if below is None else format_lsn(below),
        "lag": {
            "behind_records": lag.behind_records,
            "behind_bytes": lag.behind_bytes,
            "behind_s": round(lag.lag_s, 3),
            "lost_records": lag.lost_records,
        },
        "verified": verified_document(seen.verified.get(name)),
        "proof": proof(seen.verified[name], time.time()) if name in seen.verified else None,
        "replay": _replay(config, name, committed),
    }


def _replay(config: Config, name: str, at: dict[str, dict[int, int]]) -> Document | None:
    """The replay that the live generation is in, if it is in one."""
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import ViewState, state_directory, view_directory

    directory = view_directory(config.apply.state, config.source.name, name)
    number = read_generations(directory).live_number
    replay = ViewState(state_directory(directory, number), "").replay()
    if replay is None or not replay.goes_on(at):
        return None
    places = [(t, p, end) for t, ends in replay.until.items() for p, end in ends.items()]
    left = sum(max(0, end - at.get(topic, {}).get(p, 0)) for topic, p, end in places)
    return {"from": replay.place, "left_records": left}
