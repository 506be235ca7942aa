"""``python -m tests.maintenance``: seeds of views and histories, on a PostgreSQL of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psycopg

from stack import servers
from tests.maintenance.kept import history
from views.maintenance import key_queries


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the views of all seeds were equal to those made anew, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default 0)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headwater-maintenance-") as directory:
        home = Path(directory) / "stack"
        try:
            dsn = servers.start(home, ["postgres"]).postgres_dsn
            seeds = range(options.first, options.first + options.seeds)
            return _run(dsn, seeds)
        finally:
            servers.purge(home)


def _run(dsn: str, seeds: range) -> int:
    failures: list[int] = []
    seen: Counter[str] = Counter()
    with psycopg.connect(dsn) as conn:
        for seed in seeds:
            try:
                kept = history(conn, seed)
            except (AssertionError, psycopg.Error) as error:
                failures.append(seed)
                print(f"seed {seed}: {error}", flush=True)
            else:
                body = kept.view.body
                seen[f"{len(body.tables)} tables"] += 1
                seen["groups"] += body.group is not None
                seen["beside"] += any(query.beside for query in key_queries(kept.view))
                seen["with rows at the end"] += bool(kept.held())
            conn.rollback()
    print(f"{len(seeds)} seeds, {len(failures)} failures {failures}, {dict(sorted(seen.items()))}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
