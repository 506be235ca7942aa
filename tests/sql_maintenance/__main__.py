"""Random views kept through random batches.

``python -m tests.sql_maintenance --seeds N --first F`` runs seeds.

``--dsn`` names a PostgreSQL; a database of its own is not needed, nothing is left in it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import psycopg

from tests.sql_maintenance.seeds import KINDS, run_seed


def main() -> int:
    """Run the seeds; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sql_maintenance", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--refused", action="store_true", help="print why views were refused")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="any",
        help="any view, one whose groups are kept, or one that joins a relation twice",
    )
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    failed = []
    began = time.monotonic()
    with psycopg.connect(options.dsn, autocommit=True) as connection:
        for seed in range(options.first, options.first + options.seeds):
            try:
                done = run_seed(connection, seed, options.kind)
            except (AssertionError, psycopg.Error) as error:
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
                continue
            counts[f"{done.mode}, assumption broken" if done.assumed else done.mode] += 1
            counts["batches by keys"] += done.keys
            counts["batches whole"] += done.whole
            if done.groups:
                counts[f"groups {done.groups}"] += 1
            if done.refused and options.refused:
                print(f"seed {seed}: {done.refused}\n    {done.sql}", flush=True)
    took = time.monotonic() - began
    said = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    print(f"{options.seeds} seeds in {took:.1f} s: {said}; failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
