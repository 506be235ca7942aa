"""``python -m tests.maintenance``: seeds of views and histories.

The rule alone, on a PostgreSQL of its own; with ``--spark`` what applies it: mirrors, Spark, kills
and batches that come again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psycopg

from jobs.session import open_session
from stack import servers
from stack.jars import jars
from stack.java import find_java
from tests.maintenance.kept import history
from tests.maintenance.mirrored import Mirrored, broken_history, plain_history
from tests.spark import quick
from views.maintenance import key_queries

_BATCHES = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the views of all seeds were equal to those made anew, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default 0)")
    parser.add_argument("--spark", action="store_true", help="over mirrors, with Spark")
    options = parser.parse_args(arguments)
    if options.spark:
        return _run_spark(range(options.first, options.first + options.seeds))
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


def _run_spark(seeds: range) -> int:
    failures: list[int] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headwater-maintenance-") as directory:
        settings = {
            "spark.sql.warehouse.dir": f"{directory}/warehouse",
            "spark.local.dir": directory,
            "spark.ui.enabled": "false",
        }
        find_java()
        spark = open_session("local[2]", settings, jars("spark"), "headwater-maintenance")
        with quick(spark):
            for seed in seeds:
                home = Path(directory) / str(seed)
                try:
                    plain_history(Mirrored(spark, home / "plain", seed), _BATCHES)
                    broken_history(Mirrored(spark, home / "broken", seed), _BATCHES)
                except Exception as error:
                    failures.append(seed)
                    print(f"seed {seed}: {error!r}", flush=True)
                shutil.rmtree(home, ignore_errors=True)
        spark.stop()
    seconds = (time.monotonic() - began) / max(len(seeds), 1)
    print(f"{len(seeds)} seeds, {len(failures)} failures {failures}, {seconds:.1f} s a seed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
