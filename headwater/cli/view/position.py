"""How far a view is: its position, its lag, and the replay that it is in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cdc.lsn import format_lsn

if TYPE_CHECKING:
    from cdc.config import Config
    from cdc.kafka.broker import Broker

Document = dict[str, Any]


def reached(config: Config, name: str, topics: list[str], broker: Broker) -> Document:
    """How far a view is that reads these topics."""
    from cdc.lag.measure import measure
    from cdc.source.postgres import connect
    from verification.view_positions import applied_below

    source = config.source
    below = applied_below(broker, source.name, name, topics)
    with connect(source.dsn) as conn:
        lag = measure(conn, broker, source.name, source.slot_name, {name: topics}, time.time())
    known = [one.behind_bytes for one in lag.views if one.behind_bytes is not None]
    committed: dict[str, dict[int, int]] = {}
    for one in lag.views:
        committed.setdefault(one.topic, {})[one.partition] = one.committed or 0
    return {
        "below_lsn": None if below is None else format_lsn(below),
        "lag": {
            "behind_records": sum(one.behind_records for one in lag.views),
            "behind_bytes": max(known, default=None),
            "behind_s": round(max((one.behind_s for one in lag.views), default=0.0), 3),
            "lost_records": sum(one.lost_records for one in lag.views),
        },
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
