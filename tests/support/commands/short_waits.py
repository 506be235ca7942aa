"""Commands that look sooner than by themselves at what changes seldom: for tests of what they do
then, which is the same. ``headwater`` with its own times is tested by all others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Final

_VARIABLE: Final = "HEADWATER_TESTS_WAITS"
OF_APPLY: Final[Mapping[str, float]] = {
    "jobs.run.engine:_LOOK_S": 0.2,
    "jobs.run.engine:_TABLES_S": 0.5,
    "jobs.run.engine:_VERSIONS_S": 0.5,
    "jobs.run.views.lane:_MENDED_S": 0.5,
    "jobs.run.views.view_entry:_MENDED_S": 0.5,
    "jobs.run.views.view_entry:_LONGEST_S": 1.0,
}
"""Seconds between two looks at declarations, tables, versions, and at a view with a fault."""


def waiting(seconds: Mapping[str, float]) -> dict[str, str]:
    """For the environment of a command: constants as ``module:NAME``."""
    return {_VARIABLE: json.dumps(dict(seconds))}


def wait_as_told() -> None:
    """In a command's process. A name that is no more is an error."""
    for place, seconds in json.loads(os.environ.pop(_VARIABLE, "{}")).items():
        module, _, name = place.partition(":")
        found = import_module(module)
        assert isinstance(getattr(found, name), int | float), place
        setattr(found, name, seconds)
