"""Ranges of blocks, their size, a worker's pace and the condition for rows that moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import UsageError
from cdc.protocol.relation import Relation
from headwater.cli.snapshot.choice import parse_range
from snapshots.chunk import Pace, Task, together, unseen, what_it_sees
from snapshots.plan import MOST_FILES, Leaf, TablePlan, chunk_blocks, split
from snapshots.rate import parse_rate
from snapshots.table_reader import Block

UNLIMITED = float("inf")


def leaf(blocks: int, rows: int = 0, by_block: bool = True) -> Leaf:
    return Leaf(1, "ONLY t", "16384", blocks, rows, by_block)


@given(st.integers(0, 10_000), st.integers(1, 3_000))
def test_ranges_cover_every_block_once_and_the_last_is_open(blocks: int, size: int) -> None:
    ranges = split(leaf(blocks), size)
    assert ranges[0][0] == 0
    assert ranges[-1][1] is None
    assert [end for _, end in ranges[:-1]] == [first for first, _ in ranges[1:]]
    assert all(end - first == size for first, end in ranges if end is not None)


def test_what_is_no_heap_is_one_range() -> None:
    assert split(leaf(5000, by_block=False), 10) == [(0, None)]


@pytest.mark.parametrize(
    ("blocks", "rows", "workers", "rows_s", "bytes_s", "expected"),
    [
        (0, 0, 1, UNLIMITED, UNLIMITED, 128),  # nobody knows: small
        (100_000, 9_000_000, 1, UNLIMITED, UNLIMITED, 3906),  # 32 MB
        (16_000, 0, 4, UNLIMITED, UNLIMITED, 250),  # sixteen for each worker
        (100_000, 9_000_000, 1, 900.0, UNLIMITED, 50),  # 5 s at 900 rows/s
        (100_000, 9_000_000, 1, UNLIMITED, 1_000_000.0, 610),  # 5 s at 1 MB/s
        (100_000, 9_000_000, 1, 1.0, UNLIMITED, 1),
    ],
)
def test_a_chunk_is_neither_long_nor_needlessly_short(
    blocks: int, rows: int, workers: int, rows_s: float, bytes_s: float, expected: int
) -> None:
    leaves = (leaf(blocks, rows),)
    assert chunk_blocks(leaves, workers, 32.0, rows_s, bytes_s) == expected


def tasks(*tables: tuple[str, str | None, list[Leaf]], blocks: int) -> list[list[int]]:
    """Which leaves are read together, of tables with what was seen of them before."""
    plans, every = dict[str, TablePlan](), list[Task]()
    for name, seen, leaves in tables:
        relation = Relation(1, "public", name, "d", (), ())
        plan = TablePlan(1, relation, name, None, (), tuple(leaves))
        plans[plan.label] = plan
        every += [Task((chunk,), seen) for chunk in plan.chunks(blocks)]
    found = together(every, plans, dict.fromkeys(plans, blocks))
    assert [chunk for task in found for chunk in task.chunks] == [
        chunk for task in every for chunk in task.chunks
    ]
    return [[chunk.leaf for chunk in task.chunks] for task in found]


def leaves(*blocks: int) -> list[Leaf]:
    return [Leaf(number, "ONLY t", "1", of, 0, True) for number, of in enumerate(blocks, 1)]


def test_small_files_of_one_table_are_read_together_and_large_ones_alone() -> None:
    assert tasks(("t", None, leaves(1, 2, 3, 0, 1)), blocks=6) == [[1, 2, 3, 4], [5]]
    assert tasks(("t", None, leaves(1, 9, 1, 1)), blocks=6) == [[1], [2], [2], [3, 4]]
    assert tasks(("t", None, leaves(1, 1)), ("u", None, leaves(1, 1)), blocks=6) == [[1, 2], [1, 2]]
    assert tasks(("t", "1:1:", leaves(1)), ("t", "2:2:", leaves(1)), blocks=6) == [[1], [1]]
    assert list(map(len, tasks(("t", None, leaves(*[0] * 70)), blocks=6))) == [
        MOST_FILES,
        MOST_FILES,
        6,
    ]


def test_a_worker_waits_until_its_limits_allow_the_next_block() -> None:
    now, waits = [10.0], list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    pace = Pace(100.0, 1000.0, lambda: now[0], wait)
    pace.spend(Block(b"x" * 100, 50))  # half a second of rows
    pace.spend(Block(b"x" * 2000, 1))  # two seconds of bytes
    now[0] += 60
    pace.spend(Block(b"x", 100))  # what was not used is lost
    assert waits == pytest.approx([0.5, 2.0, 1.0])


def test_no_limit_waits_for_nothing() -> None:
    waits = list[float]()
    pace = Pace(UNLIMITED, UNLIMITED, lambda: 0.0, waits.append)
    pace.spend(Block(b"x" * 1_000_000, 100_000))
    assert waits == []


def test_the_condition_for_moved_rows_widens_xmin_below_the_next_id() -> None:
    condition = unseen(4_294_967_400, "100:200:150")
    assert "4294967400 - ((4294967400 - xmin::text::bigint) & 4294967295)" in condition
    assert "'100:200:150'::pg_snapshot" in condition


@pytest.mark.parametrize(
    ("text", "sees", "next_xid"),
    [
        ("100:100:", "100:100:", 100),
        ("100:105:101,103", "100:105:101,103", 105),
        # All from 100 on were rolled back: seen with writers that roll back, by seed 12.
        ("103:100:", "103:103:", 103),
    ],
)
def test_what_a_slots_snapshot_sees_is_told_so_that_postgresql_reads_it(
    text: str, sees: str, next_xid: int
) -> None:
    assert what_it_sees(text) == (sees, next_xid)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("none", (UNLIMITED, UNLIMITED)),
        ("5000 rows/s", (5000.0, UNLIMITED)),
        ("2.5MB/s", (UNLIMITED, 2_500_000.0)),
    ],
)
def test_rates_are_rows_or_megabytes_a_second(text: str, rate: tuple[float, float]) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "5", "fast", "0 rows/s", "-1 MB/s", "5 GB/s"])
def test_another_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rate"):
        parse_rate(text)


def test_key_ranges_may_be_open_at_one_end() -> None:
    assert parse_range(None) is None
    assert parse_range("10:20") == ("10", "20")
    assert parse_range("10:") == ("10", None)
    assert parse_range(":20") == (None, "20")
    for text in ("10", ":", "a:b:c"):
        with pytest.raises(UsageError, match="is not LO:HI"):
            parse_range(text)
