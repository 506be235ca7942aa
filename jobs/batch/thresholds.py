"""How much is few, and how much a task or a batch takes: where a batch of one size is handled
otherwise than one of another, it is decided here.

Measured on two cores with other work (docs/decisions/0024, 0025, 0033): a small batch into Delta
takes Spark's MERGE 1.5 to 4 s of CPU, one process 0.2 s; 200 changes/s into Redis took 835 ms from
trigger to commit with a shuffle, 401 ms in one task; ten changes in a history of a million rows
took 8.3 s by Spark, 0.28 s in one process.
"""

from __future__ import annotations

from typing import Final

FEW_ROWS: Final = 5_000
"""Records, rows, keys or versions: one process is done with so few sooner than tasks are."""
FEW_BYTES: Final = 64 << 20
"""What more rows than ``FEW_ROWS`` may take that are brought to the driver all the same."""
HISTORY_CHANGES: Final = 10_000
"""Changes of a history that the driver puts in order; more Spark does sooner."""
SMALL_TABLE_BYTES: Final = 32 << 20
"""Files of a Delta table: to write all of them anew costs less than Spark's jobs."""
TASK_RECORDS: Final = 50_000
"""A partition is not divided further: who reads a part reads the others' records, too."""
ROWS_HERE: Final = 100_000
"""Rows or records that may be in the driver at once, as Python or Arrow has them; so many it has
written before tasks have started."""
BATCH_RECORDS: Final = 1_000_000
"""The most of a batch, where the configuration says nothing: tasks hold part of it at a time."""
