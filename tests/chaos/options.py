"""What a seed draws beside workload and faults: the server, and capture's settings. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from stack.postgres import NEWEST
from tests.chaos.workload.outbox import TOPICS as EMITTED
from tests.chaos.workload.tables import KEYS

OLDER: Final = "16"
WHOLE_EVERY: Final = 3
"""The whole path takes minutes, so every third seed goes it."""
ENGINES: Final = ("database", "delta")
DELTA_EVERY: Final = 4
"""Of the seeds that go the whole path, every fourth keeps its mirrors in Delta."""
OWN_STATE_EVERY: Final = 3
"""Of those with a state database every third names one by ``apply.state_dsn``."""
OWN_JVM_EVERY: Final = 5
"""Of the seeds that go the whole path, every fifth starts Spark with each apply; the others borrow
the JVM of the run, for Spark's start is most of what an apply costs that is killed again."""
_SNAPSHOT: Final = "[snapshot]\nchunk_mb = 0.02\n"
"""Of a table that joins: its rows are read bit by bit."""
ENVELOPE_BYTES: Final = 500
"""A record may weigh so much less than ``message.max.bytes``."""


class Options(NamedTuple):
    """Of one seed. ``message_bytes``: capture's ``message.max.bytes``, small, with what is larger
    sent to the dead letters; None for the default, which no record of the workload reaches.
    ``whole``: views are kept as well, which would lack the rows of dead letters; by ``engine``, and
    with ``own_state`` in a state database that apply does not start itself; with ``own_jvm`` each
    apply starts its own."""

    major: str
    metadata: bool
    message_bytes: int | None
    partitions: int
    producer: str
    progress_ms: int
    feedback_s: float
    whole: bool
    engine: str
    own_state: bool
    own_jvm: bool

    @property
    def limit(self) -> int | None:
        """What a record may weigh; None when nothing is too large."""
        return None if self.message_bytes is None else self.message_bytes - ENVELOPE_BYTES

    def toml(self, *, streaming: bool) -> str:
        """The sections [kafka], which is open, to [source.keys]. A snapshot must not meet a row
        that is too large, whatever ``oversized`` says: the small limit is for streaming alone."""
        producer, oversized = self.producer, ""
        if streaming and self.message_bytes is not None:
            producer += f'"message.max.bytes" = {self.message_bytes}\n'
            oversized = 'oversized = "dead_letter"\n'
        keys = "".join(f'"{label}" = {json.dumps(names)}\n' for label, names in KEYS.items())
        return (
            f"partitions = {self.partitions}\n[kafka.producer]\n{producer}"
            f"[capture]\nqueue_mb = 8\nprogress_ms = {self.progress_ms}\n"
            f"emit_topics = {json.dumps(EMITTED)}\n"
            f"feedback_s = {self.feedback_s}\n{oversized}"
            f"transaction_metadata = {json.dumps(self.metadata)}\n"
            f"{_SNAPSHOT if streaming else ''}[source.keys]\n{keys}"
        )

    def __str__(self) -> str:
        said = [f"PostgreSQL {self.major}"]
        if self.whole:
            said.append(f"views in all stores by {self.engine}")
            if self.own_state:
                said.append("a state database of its own")
            if self.own_jvm:
                said.append("a JVM for each apply")
        if self.metadata:
            said.append("transactions told")
        if self.limit is not None:
            said.append(f"dead letters above {self.limit} bytes")
        return ", ".join(said)


def options(seed: int, stores: bool | None = None, engine: str | None = None) -> Options:
    """Settings that bring out what is rare: small queues, marks that come often or hardly ever.

    ``stores``: with views or without; None for every third seed. ``engine`` keeps them; None as the
    seed says.
    """
    keeps = engine or ("delta" if seed % DELTA_EVERY == 0 else "database")
    rng = random.Random(f"options {seed}")
    drawn = Options(
        rng.choice([NEWEST, NEWEST, OLDER]),
        rng.random() < 0.4,
        # The larger limit leaves capture its columns, the smaller one does not.
        rng.choice([None, None, None, 15_000, 134_000]),
        rng.choice([1, 2, 3]),
        rng.choice(["", '"socket.timeout.ms" = 1500\n', '"linger.ms" = 20\n']),
        rng.choice([20, 200, 3000]),
        rng.choice([0.2, 1.0]),
        seed % WHOLE_EVERY == 0 if stores is None else stores,
        keeps,
        keeps == "database" and random.Random(f"state {seed}").random() < 1 / OWN_STATE_EVERY,
        random.Random(f"jvm {seed}").random() < 1 / OWN_JVM_EVERY,
    )
    return drawn._replace(message_bytes=None) if drawn.whole else drawn


def majors(seeds: Iterable[int]) -> list[str]:
    """The versions of PostgreSQL that these seeds run on."""
    return sorted({options(seed).major for seed in seeds})
