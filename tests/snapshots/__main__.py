"""``python -m tests.snapshots``: seeds of kills and resumes, on servers of their own."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psycopg

from cdc.errors import HeadwaterError
from tests.chaos.servers.environment import Setting, connect, database, drop_database, setting
from tests.snapshots.run import Outcome, Seed, Servers
from tests.snapshots.workload import PAUSE_S

HOME: Final = Path(".headwater/snapshots")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when all seeds ran and none found anything, else 1."""
    options = _options().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes: list[Outcome] = []
    with setting(options.home) as servers:
        for seed in range(options.first, options.first + options.seeds):
            outcomes.append(run(servers, seed, options.joins))
            said = sys.stderr if options.json else sys.stdout
            print(line(outcomes[-1]), file=said, flush=True)
    failures = [outcome.seed for outcome in outcomes if outcome.findings]
    faults = sum((outcome.faults for outcome in outcomes), Counter[str]())
    if options.json:
        print(json.dumps({"seeds": len(outcomes), "failures": failures, "faults": dict(faults)}))
    else:
        print(f"{len(outcomes)} seeds, {len(failures)} failures {failures}, {dict(faults)}")
    return 1 if failures else 0


def run(servers: Setting, seed: int, joins: bool = False, pause_s: float = PAUSE_S) -> Outcome:
    """One seed in a database of its own, which goes with its slots when all was exact."""
    name = f"snapshots_{seed}"
    with connect(servers.postgres_dsn) as conn:
        conn.execute(f"create database {name}".encode())
    dsn = database(servers.postgres_dsn, name)
    place = Servers(servers.home, dsn, servers.bootstrap, servers.kill, servers.restart)
    judged = Seed(place, seed, joins, pause_s)
    try:
        outcome = judged.run()
    except (AssertionError, HeadwaterError, psycopg.Error, subprocess.SubprocessError) as error:
        outcome = judged.outcome
        outcome.findings.append(f"not run to its end: {type(error).__name__}: {error}")
    if not outcome.findings:
        with connect(servers.postgres_dsn) as conn:
            drop_database(conn, name)
    return outcome


def line(outcome: Outcome) -> str:
    """What a seed did and found."""
    kind = "init" if outcome.initial else "table add" if outcome.joins else "on demand"
    faults = ", ".join(f"{count} {fault}" for fault, count in sorted(outcome.faults.items()))
    said = "exact" if not outcome.findings else "\\n  ".join(["WRONG", *outcome.findings])
    return (
        f"seed {outcome.seed}: {kind}, {outcome.rows} rows, {outcome.points} LSNs, "
        f"{outcome.resumed} resumes, {outcome.transactions} transactions; {faults}: {said}"
    )


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.snapshots", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--first", type=int, default=1, help="the first one (default 1)")
    parser.add_argument("--joins", action="store_true", help="tables join in all of them")
    parser.add_argument("--json", action="store_true", help="the count as JSON")
    parser.add_argument("--home", type=Path, default=HOME, help="where the servers live")
    return parser


if __name__ == "__main__":
    sys.exit(main())
