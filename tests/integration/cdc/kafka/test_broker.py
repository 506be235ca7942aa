"""Topics, offsets and reads on a real broker, with the logs that compaction leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer

from cdc.capture.duplicate_filter import Tail
from cdc.errors import LogError, RetryableError
from cdc.kafka.broker import (
    Broker,
    TopicSpec,
    connection,
    different_partitions,
    last_record,
    read_compacted,
)
from cdc.kafka.partition_ends import read_tails
from cdc.lsn import Position
from tests.support.servers.group_member import member_of
from tests.support.waiting import wait_until

# Rolls and cleans segments within a second, so that a test sees a compacted log.
EAGER_COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0",
    "max.compaction.lag.ms": "1",
}


@pytest.fixture
def broker(kafka: str) -> Iterator[Broker]:
    with Broker(kafka) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, source_name: str) -> str:
    name = f"{source_name}.public.orders"
    broker.create_topics([TopicSpec(name, 2)])
    return name


def produce(
    address: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    partition: int = 0,
    timestamp_ms: int = 0,
) -> None:
    """Write records, one batch each; a timestamp of 0 is now."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for key, value in records:
        producer.produce(topic, value, key, partition, timestamp=timestamp_ms)
        assert producer.flush(120) == 0


def event(lsn: int, ordinal: int, op: str = "c") -> bytes:
    return json.dumps({"op": op, "source": {"commit_lsn": lsn, "ordinal": ordinal}}).encode()


def test_missing_topics_are_created_and_existing_ones_left_alone(
    broker: Broker, source_name: str
) -> None:
    first = TopicSpec(f"{source_name}.a", 2, 1, {"cleanup.policy": "compact"})
    second = TopicSpec(f"{source_name}.b", 1)
    assert broker.create_topics([first]) == [first.name]
    assert broker.create_topics([first._replace(partitions=5), second]) == [second.name]
    assert broker.partitions([first.name, second.name, "absent"]) == {first.name: 2, second.name: 1}
    assert broker.topic_config([first.name])[first.name]["cleanup.policy"] == "compact"
    wanted = [first._replace(partitions=5), second]
    assert different_partitions(broker, wanted) == {first.name: (5, 2)}
    broker.delete_topics([first.name, "absent"])
    wait_until(lambda: not broker.partitions([first.name]), "the topic to be gone")


def test_a_refused_topic_is_an_error_with_kafkas_reason(
    broker: Broker, source_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RETRY_TIMEOUT_S", 0.5)
    with pytest.raises(LogError, match="Unknown topic config name: nonsense"):
        broker.create_topics([TopicSpec(f"{source_name}.a", 1, 1, {"nonsense": "1"})])
    with pytest.raises(
        LogError, match=r"factor of 7 .*\. Lower kafka\.replication_factor, .* has 1"
    ):
        broker.create_topics([TopicSpec(f"{source_name}.b", 1, 7)])


def test_offsets_of_a_topic_that_does_not_exist_name_it(broker: Broker) -> None:
    with pytest.raises(LogError, match=r"has no topic gone\.public\.t"):
        broker.end_offsets(["gone.public.t"])


def test_a_read_is_bounded_on_both_sides(broker: Broker, topic: str, kafka: str) -> None:
    produce(kafka, topic, [(b"k", b"v%d" % i) for i in range(30)], timestamp_ms=1_700_000_000_000)
    assert broker.end_offsets([topic]) == {topic: {0: 30, 1: 0}}
    assert broker.beginning_offsets([topic]) == {topic: {0: 0, 1: 0}}
    records = list(broker.read(topic, 0, 10, 25))
    assert [(r.offset, r.value) for r in records] == [(i, b"v%d" % i) for i in range(10, 25)]
    assert records[0].timestamp_ms == 1_700_000_000_000
    assert list(broker.read(topic, 1, 0, 0)) == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("by_broker", [False, True])
def test_what_is_compressed_is_read_whatever_the_codec(
    broker: Broker, topic: str, kafka: str, codec: str, by_broker: bool
) -> None:
    """A producer's batches as they are, or compressed anew for the topic: Java frames snappy."""
    if by_broker:
        topic = f"{topic}.{codec}"
        broker.create_topics([TopicSpec(topic, 1, 1, {"compression.type": codec})])
    values = [b"", b"short", b"long " * 50_000, bytes(range(256)) * 4, *[b"many"] * 500]
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "linger.ms": 1000,
            "compression.type": "none" if by_broker else codec,
        }
    )
    for value in values:
        producer.produce(topic, value, b"k", 0)
    assert producer.flush(120) == 0
    assert [one.value for one in broker.read(topic, 0, 0, len(values))] == values


def test_reads_may_overlap_and_be_left_early(broker: Broker, topic: str, kafka: str) -> None:
    produce(kafka, topic, [(b"k", b"%d" % i) for i in range(10)])
    pairs = zip(broker.read(topic, 0, 0, 5), broker.read(topic, 0, 5, 10), strict=True)
    assert [(a.offset, b.offset) for a, b in pairs] == [(i, i + 5) for i in range(5)]
    assert next(broker.read(topic, 0, 3, 10)).offset == 3
    assert [r.offset for r in broker.read(topic, 0, 0, 2)] == [0, 1]


def test_the_first_values_of_several_partitions_are_read_at_once(
    broker: Broker, topic: str, kafka: str
) -> None:
    """Again and again by the same client, from wherever, and however much is behind them."""
    more = [(b"k", b"%d" % i) for i in range(60)]
    produce(kafka, topic, [(b"k", b"a"), (b"k", None), (b"k", None), (b"k", b"b"), *more])
    produce(kafka, topic, [(b"k", b"c"), (b"k", b"d"), (b"k", None), *more], partition=1)
    for _ in range(3):
        for starts, values in (
            ((0, 1), ([b"a"], [b"d"])),
            ((1, 0), ([None, None, b"b"], [b"c"])),
            ((4, 2), ([b"0"], [None, b"0"])),
        ):
            wanted = {(topic, p): (at, 60) for p, at in enumerate(starts)}
            found = broker.first_values(wanted)
            assert tuple([r.value for r in found[topic, p]] for p in range(2)) == values
            assert [found[topic, p][0].offset for p in range(2)] == [*starts]
    assert broker.first_values({(topic, 0): (1, 3), (topic, 1): (9, 9)}).keys() == {(topic, 0)}
    assert broker.first_values({}) == {}


def test_the_newest_record_is_found(broker: Broker, topic: str, kafka: str) -> None:
    assert last_record(broker, topic) is None
    produce(kafka, topic, [(b"k", b"%d" % i) for i in range(3)])
    last = last_record(broker, topic)
    assert last is not None
    assert (last.offset, last.value) == (2, b"2")


def test_offsets_are_committed_to_a_group_nobody_joined(broker: Broker, topic: str) -> None:
    group = f"headwater.{topic}"
    assert broker.committed(group, [topic]) == {}
    broker.commit_group(group, {topic: {0: 7}})
    assert broker.committed(group, [topic]) == {topic: {0: 7}}
    broker.commit_group(group, {topic: {0: 8, 1: 0}})
    assert broker.committed(group, [topic]) == {topic: {0: 8, 1: 0}}
    assert broker.committed(group, ["another"]) == {}


def test_a_group_that_others_use_too_loses_what_it_holds_of_own_topics(
    broker: Broker, topic: str
) -> None:
    group, others = f"headwater.{topic}", f"{topic}_others"
    broker.create_topics([TopicSpec(others, 1)])
    broker.commit_group(group, {topic: {0: 7, 1: 5}, others: {0: 1}})
    assert broker.group_topics([group, "nobody's"]) == {group: [topic, others]}
    assert not broker.leave_group(group, topic.__eq__)
    assert broker.group_topics([group]) == {group: [others]}
    assert not broker.leave_group(group, topic.__eq__), "again"
    assert broker.committed(group, [others]) == {others: {0: 1}}
    assert broker.leave_group(group, others.__eq__)
    assert broker.existing_groups([group]) == []
    assert broker.leave_group(group, others.__eq__), "a group that is not there"


def test_a_group_that_a_consumer_has_joined_may_be_left(
    broker: Broker, topic: str, kafka: str
) -> None:
    group = f"headwater.{topic}"
    with (
        member_of(group, topic, kafka),
        pytest.raises(RetryableError, match="Stop the consumer that is in the group"),
    ):
        broker.commit_group(group, {topic: {0: 7}})
    broker.commit_group(group, {topic: {0: 7}})
    assert broker.committed(group, [topic]) == {topic: {0: 7}}


def test_a_group_that_goes_back_says_how_far_it_was(broker: Broker, topic: str) -> None:
    group = f"group-of-{topic}"
    broker.commit_group(group, {topic: {0: 7, 1: 5}}, "one", {topic: {0: 9, 1: 5}})
    assert broker.committed(group, [topic]) == {topic: {0: 7, 1: 5}}
    assert broker.reached(group, [topic], "one") == {topic: {0: 9, 1: 5}}
    assert broker.reached(group, [topic], "two") == {}
    broker.commit_group(group, {topic: {0: 9}}, "one", {topic: {0: 9}})
    broker.commit_group(group, {topic: {1: 6}}, "two")
    assert broker.reached(group, [topic], "one") == {topic: {0: 9}}
    assert broker.reached(group, [topic], "two") == {topic: {1: 6}}


def test_a_read_below_the_oldest_record_is_an_error(broker: Broker, topic: str, kafka: str) -> None:
    produce(kafka, topic, [(b"k", b"v")])
    with pytest.raises(LogError, match=f"reading {topic}-0: .* outside the range"):
        list(broker.read(topic, 0, 5, 6))


def test_a_compacted_topic_is_read_as_a_table_in_the_order_of_its_last_writes(
    broker: Broker, source_name: str, kafka: str
) -> None:
    name = f"{source_name}.__schemas"
    broker.create_topics([TopicSpec(name, 1, 1, EAGER_COMPACTION)])
    produce(kafka, name, [(b"a", b"1"), (b"b", b"2"), (b"b", None), (b"c", b"4"), (b"a", b"3")])
    table = read_compacted(broker, name)
    assert list(table.items()) == [(b"c", b"4"), (b"a", b"3")]


def test_tails_of_a_compacted_topic_pass_over_its_gaps(
    broker: Broker, source_name: str, kafka: str
) -> None:
    topic = f"{source_name}.public.orders"
    broker.create_topics([TopicSpec(topic, 3, 1, EAGER_COMPACTION)])
    produce(kafka, topic, [(b"a", event(100 + i, 1, "u")) for i in range(40)])
    produce(kafka, topic, [(b"b", event(200, 1)), (b"b", event(300, 2, "d"))], partition=1)

    def compacted() -> bool:
        # A segment is rolled by the next record that comes after its time.
        produce(kafka, topic, [(b"z", event(900, 0, "r"))])
        return len(list(broker.read(topic, 0, 0, 40))) == 1

    wait_until(compacted, "the log to be compacted")
    assert read_tails(broker, [topic], {}) == {
        (topic, 0): Tail(Position(139, 1)),
        (topic, 1): Tail(Position(300, 2), delete_without_tombstone=True),
        (topic, 2): Tail(None),
    }
    produce(kafka, topic, [(b"b", None)], partition=1)
    assert read_tails(broker, [topic], {})[topic, 1] == Tail(Position(300, 2))


def test_a_broker_s_own_settings_are_what_new_topics_have(broker: Broker, source_name: str) -> None:
    new = f"{source_name}.new"
    broker.create_topics([TopicSpec(new, 1, 1)])
    limit = broker.topic_config([new])[new]["max.message.bytes"]
    assert broker.default_config()["message.max.bytes"] == limit
