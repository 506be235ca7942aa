"""How many records a batch may have, by the memory there is."""

from __future__ import annotations

import pytest

from jobs.session import most_records

GB = 1 << 30


@pytest.mark.parametrize(
    ("heap_bytes", "views", "records"),
    [
        (2 * GB, 3, 174_762),
        (2 * GB, 1, 500_000),
        (2 * GB, 100, 10_000),
        (1 * GB, 2, 131_072),
        (64 * GB, 3, 500_000),
        (2 * GB, 0, 500_000),
    ],
)
def test_views_share_the_heap_within_bounds(heap_bytes: int, views: int, records: int) -> None:
    assert most_records(heap_bytes, views) == records
