"""``python -m tests.spark_maintenance``: seeds of views and histories.

The rule alone, on a PostgreSQL of its own; with ``--spark`` what applies it: mirrors, Spark, kills,
batches that come again, and stores that were set back, for a view of several tables and one of one
table each, beside what their SQL gives in that PostgreSQL. One seed: ``--first N --seeds 1``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import psycopg

from jobs.spark.jars import jars
from jobs.spark.java import find_java
from jobs.spark.session import open_session
from stack import servers
from tests.spark_maintenance.declared import REFUSED
from tests.spark_maintenance.histories import broken_history, plain_history, set_back_history
from tests.spark_maintenance.kept import Connection, Kept, history
from tests.spark_maintenance.mirrored import Mirrored
from tests.spark_maintenance.projected import Projected
from tests.support.servers.spark import QUICK
from views.spark.plan import key_queries

_BATCHES = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the views of all seeds were equal to those made anew, else 1."""
    options = _options().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seeds = range(options.first, options.first + options.seeds)
    said = sys.stderr if options.json else sys.stdout
    if options.home:
        options.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headwater-maintenance-", dir=options.home) as home:
        failures, told = (_run_spark if options.spark else _run)(Path(home), seeds, said)
    if options.json:
        print(json.dumps({"seeds": len(seeds), "failures": failures}))
    else:
        print(f"{len(seeds)} seeds, {len(failures)} failures {failures}, {told}")
    return 1 if failures else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_maintenance", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default 0)")
    parser.add_argument("--spark", action="store_true", help="over mirrors, with Spark")
    parser.add_argument("--json", action="store_true", help="the count as JSON")
    parser.add_argument("--home", type=Path, help="a folder for what they need meanwhile")
    return parser


def _run(home: Path, seeds: range, said: TextIO) -> tuple[list[int], str]:
    """Failed seeds, and what was seen."""
    seen: Counter[str] = Counter()
    with _postgres(home) as conn:

        def one(seed: int) -> None:
            try:
                _count(seen, history(conn, seed))
            finally:
                conn.rollback()

        failures = _failures(seeds, one, said)
    return failures, f"{_sorted(seen)}, {_drawn_again()}"


def _failures(seeds: range, one: Callable[[int], None], said: TextIO) -> list[int]:
    found: list[int] = []
    for seed in seeds:
        try:
            one(seed)
        except Exception as error:
            found.append(seed)
            told = str(error) if isinstance(error, AssertionError) else ""
            told = told or traceback.format_exc()
            print(f"seed {seed}: {told}", file=said, flush=True)
        else:
            print(f"seed {seed}: equal", file=said, flush=True)
    return found


def _drawn_again() -> str:
    return f"refused and drawn again: {_sorted(REFUSED)}"


def _sorted(counter: Counter[str]) -> str:
    return str(dict(sorted(counter.items())))


@contextmanager
def _postgres(home: Path) -> Iterator[Connection]:
    try:
        dsn = servers.start(home / "stack", ["postgres"]).postgres_dsn
        with psycopg.connect(dsn) as conn:
            yield conn
            conn.rollback()
    finally:
        servers.purge(home / "stack")


def _count(seen: Counter[str], kept: Kept) -> None:
    body = kept.view.body
    seen[f"{len(body.tables)} tables"] += 1
    seen["groups"] += body.group is not None
    seen["beside"] += any(query.beside for query in key_queries(kept.view))
    seen["with rows at the end"] += bool(kept.rows_at_the_end())


def _run_spark(home: Path, seeds: range, said: TextIO) -> tuple[list[int], str]:
    """Failed seeds, and how long one took."""
    began = time.monotonic()
    settings = {
        "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.local.dir": str(home),
        "spark.ui.enabled": "false",
        **QUICK,
    }
    find_java()
    spark = open_session("local[2]", settings, jars("spark"), "headwater-maintenance")
    with _postgres(home) as conn:

        def one(seed: int) -> None:
            of_seed = home / str(seed)
            try:
                set_back_history(Projected(spark, seed, conn), _BATCHES)
                for run in (plain_history, broken_history):
                    run(Projected(spark, seed, conn), _BATCHES)
                    run(Mirrored(spark, of_seed / run.__name__, seed, conn), _BATCHES)
            finally:
                shutil.rmtree(of_seed, ignore_errors=True)

        failures = _failures(seeds, one, said)
    spark.stop()
    took = (time.monotonic() - began) / max(len(seeds), 1)
    return failures, f"{took:.1f} s a seed, {_drawn_again()}"


if __name__ == "__main__":
    sys.exit(main())
