"""Names of topics, slots and groups, and the partition a key goes to. Pure.

Debezium's rules: ``<source>.<schema>.<table>`` with every character outside ``[A-Za-z0-9._-]``
replaced by ``_``, and by two what is two characters in Java. Two tables may so collide;
``cdc.routes.faults`` finds them.
"""

from __future__ import annotations

import re
from typing import Final

_OUTSIDE = re.compile(r"[^A-Za-z0-9._-]")


def table_topic(source: str, schema: str, table: str) -> str:
    """The topic that carries one table's events, unless a route says otherwise
    (``cdc.routes.route``)."""
    return kafka_name(f"{source}.{schema}.{table}")


def kafka_name(name: str) -> str:
    """A name as Kafka allows it."""
    return _OUTSIDE.sub(lambda found: "_" * (1 + (found[0] > "\uffff")), name)


def snapshot_topic(source: str, snapshot_id: int, schema: str, table: str) -> str:
    """The rows of one table that a snapshot on demand has read; nobody else's topic."""
    return snapshot_prefix(source, snapshot_id) + kafka_name(f"{schema}.{table}")


def snapshot_prefix(source: str, snapshot_id: int) -> str:
    """How the names of all topics of one snapshot begin."""
    return kafka_name(f"{source}.__snapshot.{snapshot_id}.")


def schemas_topic(source: str) -> str:
    """Compacted: every relation version that a ``schema_id`` names."""
    return f"{source}.__schemas"


def progress_topic(source: str) -> str:
    """Compacted, one partition: how far all partitions together have come."""
    return f"{source}.__progress"


def message_topic(source: str) -> str:
    """Logical messages (``op: m``), named as Debezium names it."""
    return f"{source}.message"


def dead_letters_topic(source: str) -> str:
    """One partition: records too large for Kafka, in pieces."""
    return f"{source}.__dead_letters"


def view_dead_letters_topic(view: str) -> str:
    """One partition, compacted: events that a view could not apply, and those behind them."""
    return f"{view}.dlq"


def row_letters_topic(source: str) -> str:
    """One partition, compacted: messages about rows that a webhook did not take."""
    return f"{source}.__alert_dead_letters"


def row_alert_group(source: str, alert: str) -> str:
    """The consumer group in which the offsets of an alert on rows are committed."""
    return f"headwater.{source}.__alerts.{alert}"


def ddl_topic(source: str) -> str:
    """One partition: what DDL made of tables, where the event trigger is installed."""
    return f"{source}.__ddl"


def outbox_topic(source: str, topic: str) -> str:
    """What ``headwater.emit`` was told to write to."""
    return f"{source}.outbox.{topic}"


def transaction_topic(source: str) -> str:
    """One partition: begin and end of every transaction, named as Debezium names it."""
    return f"{source}.transaction"


def signal_topic(source: str) -> str:
    """Topic in which snapshots are asked for."""
    return f"{source}.__signal"


def signal_group(source: str) -> str:
    """Consumer group that says which signals were taken up."""
    return f"headwater.{source}.__signal"


def slot_name(source: str) -> str:
    """Slot and publication of a source, unless configured: ``headwater_<source>``."""
    return "headwater_" + re.sub(r"[^a-z0-9_]", "_", source.lower())


def view_group(view: str) -> str:
    """The consumer group in which a view's applied offsets are committed."""
    return f"headwater.{view}"


FRAME_BYTES: Final = 5
"""Of a schema's id and what tells that there is one (``cdc.events.formats.framing``)."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 as Kafka's Java client computes it (seed 0x9747b28c), as an unsigned int."""
    length, m = len(data), 0x5BD1E995
    h = 0x9747B28C ^ length
    body = length & ~3
    for i in range(0, body, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ k
    if length > body:
        h = (h ^ int.from_bytes(data[body:], "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


def partition_for(key: bytes | None, partitions: int) -> int:
    """The partition of a key, as Java producers choose it; events without a key go to 0.

    Of a key with a schema's id in front, the partition of what follows: a table that changes gets
    another id, and its keys must not go on in other partitions, out of their order.
    """
    bare = unframed(key)
    return 0 if bare is None else (murmur2(bare) & 0x7FFFFFFF) % partitions


def unframed(key: bytes | None) -> bytes | None:
    """A key without the schema's id that it may begin with."""
    return key if key is None or key[:1] != b"\0" else key[FRAME_BYTES:]
