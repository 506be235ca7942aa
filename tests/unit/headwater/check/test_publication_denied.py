"""What `check` says of a publication that the role cannot make fit."""

from __future__ import annotations

import pytest

from headwater.check.publication import denied


@pytest.mark.parametrize(("exists", "verb"), [(False, "create"), (True, "change")])
def test_one_that_does_not_exist_is_created(exists: bool, verb: str) -> None:
    said = denied("headwater", "headwater_shop", exists=exists)
    assert said == f"role headwater may not {verb} publication headwater_shop"
