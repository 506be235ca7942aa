"""The ring gives each client, from wherever it comes, each record once and in order."""

from __future__ import annotations

import random

from cdc.lsn import Position
from headwater.api.changes.ring import Entry, Ring


def entry(partition: int, offset: int, size: int = 10) -> Entry:
    return Entry(partition, offset, b"k", b"v" * size, Position(offset + 1, 1), "u")


def read(ring: Ring, number: int, offsets: list[int], most_bytes: int) -> tuple[list[Entry], int]:
    """As a client does: what stands below its offsets it passes over."""
    found = []
    while number < ring.end:
        for one in ring.after(number, most_bytes):
            number += 1
            if one.offset >= offsets[one.partition]:
                found.append(one)
                offsets[one.partition] = one.offset + 1
    return found, number


def test_each_client_gets_each_record_once_and_in_order() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        partitions = chance.randint(1, 4)
        ring = Ring(dict.fromkeys(range(partitions), 0), chance.choice([500, 5_000, 10**9]))
        ends, everything = [0] * partitions, list[Entry]()
        clients: list[tuple[list[int], list[int], list[Entry], int | None]] = []
        for _ in range(chance.randint(1, 60)):
            batch = []
            for _ in range(chance.randint(0, 8)):
                partition = chance.randrange(partitions)
                ends[partition] += chance.randint(0, 2)  # offsets without a value
                batch.append(entry(partition, ends[partition], chance.randint(0, 200)))
                ends[partition] += 1
            everything += batch
            ring.add(batch, dict(enumerate(ends)))
            offsets = [chance.randint(0, end) for end in ends]
            if ring.covers(offsets):
                clients.append((list(offsets), list(offsets), [], ring.start(offsets)))
            following = []
            for begin, at, found, number in clients:
                if number is None or number < ring.begin:
                    continue  # left behind: it reads from Kafka
                if chance.random() < 0.7:
                    more, number = read(ring, number, at, chance.randint(1, 2_000))
                    found += more
                    wanted = [one for one in everything if one.offset >= begin[one.partition]]
                    assert [(o.partition, o.offset) for o in found] == [
                        (o.partition, o.offset) for o in wanted
                    ]
                following.append((begin, at, found, number))
            clients = list(following)


def test_what_it_holds_is_bounded_by_bytes() -> None:
    ring = Ring({0: 0}, 10_000)
    for offset in range(20_000):
        ring.add([entry(0, offset, 800)], {0: offset + 1})
    held = ring.after(ring.begin, 10**9)
    assert sum(one.size for one in held) <= 10_000
    assert ring.low == {0: 20_000 - len(held)}
    assert len(ring._entries) < 10_000
    assert not ring.covers([0])
    assert ring.covers([20_000])


def test_what_waits_for_a_client_is_counted() -> None:
    ring = Ring({0: 0}, 10**6)
    ring.add([entry(0, offset) for offset in range(5)], {0: 5})
    size = entry(0, 0).size
    assert [ring.waiting_bytes(n) for n in range(6)] == [5 * size, 4 * size, 3 * size, 2 * size,
                                                         size, 0]  # fmt: skip


def test_a_partition_without_records_moves_on() -> None:
    ring = Ring({0: 0, 1: 0}, 10**6)
    ring.add([], {0: 7, 1: 0})
    assert ring.covers([7, 0])
    assert not ring.covers([8, 0])
    assert ring.start([3, 0]) == ring.end
