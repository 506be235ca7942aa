"""Events that clients emit with no table."""

from __future__ import annotations

import hashlib
import random
from typing import Final

from tests.chaos.workload.actions import Changes, Connection
from tests.chaos.workload.tables import Table
from tests.chaos.workload.truth import Change

TOPICS: Final = ("orders", "audit")
_KEYS: Final = ("a", "b", "Zoë", None)
_REPEATED: Final = (1, 1, 1, 60, 2_000, 9_000)
"""Payloads are so many times 16 bytes: the last two are too large in some seeds."""
_EMIT: Final = b'select headwater.emit(%s, %s, %s::text, \'{"kind": "made"}\')::text'


def emit(conn: Connection, rng: random.Random, _table: Table, made: Changes) -> None:
    """Some events of a few keys, or without one."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        topic, key = rng.choice(TOPICS), rng.choice(_KEYS)
        payload = None
        if rng.random() < 0.85:
            payload = f"{rng.getrandbits(64):016x}" * rng.choice(_REPEATED)
        row = conn.execute(_EMIT, (topic, key, payload)).fetchone()
        assert row is not None
        text = None if payload is None else payload.encode()
        made.append(Change("e", f"outbox.{topic}", key, event_token(row[0], text)))


def event_token(id_: str, payload: bytes | None) -> str:
    """What tells an emitted event from all others: its id, and a digest of its payload."""
    digest = "null" if payload is None else hashlib.md5(payload, usedforsecurity=False).hexdigest()
    return f"{id_} {digest}"
