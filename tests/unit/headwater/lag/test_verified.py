"""What is known of a view after each check against its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.config import parse_config
from cdc.errors import ConfigError
from headwater.cli.lag.display import proof
from headwater.freshness import noted
from headwater.lag.verified import Verified, read_verified, write_verified
from tests.unit.headwater.lag.test_watch import config
from verification.key_walk import KeyWalk
from verification.report import Report
from verification.values.canonical_form import Canonical


def report(*ids: int, lsn: int = 100, undecided: tuple[int, ...] = (), parked: int = 0) -> Report:
    skipped: list[dict[str, Canonical]] = [{"id": one} for one in undecided]
    skipped += [{"id": 100 + one} for one in range(parked)]
    found = Report("v", lsn=lsn, sampled=9, different=len(ids), undecided=len(undecided))
    found.parked, found.skipped = parked, skipped
    found.differing = [{"id": one} for one in ids]
    return found


def test_rows_that_differ_stay_until_a_check_finds_them_equal(tmp_path: Path) -> None:
    walk = KeyWalk(("7",), ("8",))
    equal = noted(Verified(0.0), report(), walk, 10.0)
    assert (equal.equal_s, equal.equal_lsn) == (10.0, 100)
    differs = noted(equal, report(1, 2, lsn=200), walk, 20.0)
    assert differs.differing == (("1",), ("2",))
    assert (differs.equal_s, differs.equal_lsn) == (10.0, 100)
    undecided = noted(differs, report(3, lsn=300, undecided=(1, 4)), walk, 30.0)
    assert undecided.differing == (("3",), ("1",)), "1 may differ still, 2 was found equal"
    again = noted(undecided, report(lsn=400), walk, 40.0)
    assert (again.differing, again.equal_s, again.equal_lsn) == ((), 40.0, 400)
    for found in (differs, again):
        write_verified(tmp_path, found)
        assert read_verified(tmp_path) == found


@pytest.mark.parametrize("skipping", [{"undecided": (5, 6)}, {"parked": 2}])
def test_rows_that_were_not_compared_are_not_proven(skipping: dict[str, Any]) -> None:
    equal = noted(Verified(0.0), report(), KeyWalk(), 10.0)
    later = noted(equal, report(lsn=200, **skipping), KeyWalk(), 20.0)
    assert (later.equal_s, later.equal_lsn) == (10.0, 100)
    assert (later.keys, later.skipped, later.differing) == (7, 2, ())
    told = "7 keys equal to the source at LSN 0/C8, 2 min ago; 2 not compared"
    assert proof(later, 140.0).startswith(told)
    first = noted(Verified(0.0), report(**skipping), KeyWalk(), 20.0)
    assert (first.equal_s, first.equal_lsn) == (None, None)
    assert proof(first, 140.0).startswith("7 keys equal")


def test_people_are_told_what_is_proven_and_what_is_not() -> None:
    equal = Verified(400.0, 256, 1_000, 400.0, 256)
    assert proof(equal, 640.0) == "1,000 keys equal to the source at LSN 0/100, 4 min ago"
    assert proof(equal._replace(differing=(("1",),)), 640.0) == (
        "1 row differs from the source at LSN 0/100: headwater verify --repair"
    )
    assert "reads the clock" in proof(equal._replace(reason="view v reads the clock"), 640.0)


@pytest.mark.parametrize("text", ["{", '{"lsn": 3}', '{"checked_s": 1, "else": 2}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    assert read_verified(tmp_path) is None
    (tmp_path / "verified.json").write_text(text, encoding="utf-8")
    assert read_verified(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10min", 600), ("1.5 h", 5_400), ("1d", 86_400), ("", 0)]
)
def test_how_often_is_a_period(text: str, seconds: float) -> None:
    document = config().model_dump(exclude_unset=True) | {"verify": {"every": text}}
    assert parse_config(document, {}, Path("/nowhere")).verify.every == seconds


@pytest.mark.parametrize("wrong", [{"every": "4 weeks"}, {"every": "0s"}, {"all_within": "1d"}])
def test_one_that_is_none_is_refused(wrong: dict[str, str]) -> None:
    document = config().model_dump(exclude_unset=True) | {"verify": wrong}
    with pytest.raises(ConfigError, match="verify"):
        parse_config(document, {}, Path("/nowhere"))
