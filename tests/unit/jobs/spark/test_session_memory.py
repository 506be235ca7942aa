"""How large the driver's heap is, and how many records a batch may have, by the memory there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.spark.heap import driver_heap, memory, most_records

GB = 1 << 30


@pytest.mark.parametrize(
    ("heap_bytes", "views", "records"),
    [
        (2 * GB, 3, 174_762),
        (2 * GB, 1, 524_288),
        (2 * GB, 100, 10_000),
        (1 * GB, 2, 131_072),
        (64 * GB, 3, 1_000_000),
        (2 * GB, 0, 524_288),
    ],
)
def test_views_share_the_heap_within_bounds(heap_bytes: int, views: int, records: int) -> None:
    assert most_records(heap_bytes, views) == records


@pytest.mark.parametrize(
    ("memory_bytes", "heap_bytes"), [(4 * GB, 2 * GB), (15 * GB, 3 * GB), (256 * GB, 5 * GB)]
)
def test_the_heap_is_a_fifth_of_the_memory_within_bounds(
    memory_bytes: int, heap_bytes: int
) -> None:
    assert driver_heap(memory_bytes) == heap_bytes


def test_memory_is_what_a_container_may_use(tmp_path: Path) -> None:
    limit, unlimited = tmp_path / "limit", tmp_path / "unlimited"
    limit.write_text(f"{GB}\n")
    unlimited.write_text("max\n")
    machine = memory([])
    assert machine > GB
    assert memory([unlimited, tmp_path / "missing"]) == machine
    assert memory([unlimited, limit]) == GB
