"""What can be named at a place of a statement. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from views.maintain.tree.from_clause import Frame


class Common(NamedTuple):
    """A CTE, to be resolved where it is named. ``within`` is what it may name itself."""

    node: exp.CTE
    within: Mapping[str, Common]
    frames: tuple[Frame, ...]
    recursive: bool


class Env(NamedTuple):
    """What can be named at a place: levels of FROM, inner ones first, and CTEs."""

    frames: tuple[Frame, ...]
    common: Mapping[str, Common]
    recursion: Mapping[str, tuple[str, ...]]
