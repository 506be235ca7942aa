"""The cases of ``cases.toml``, and the shop that they are views of."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

SHOP = (Path(__file__).parent / "shop.sql").read_text(encoding="utf-8")


class Batch(NamedTuple):
    """Changes of one micro-batch, and what they do to the view."""

    changes: str
    effects: tuple[str, ...]


class Case(NamedTuple):
    """A view, its key and the mode in which it has to be kept at least: K or W."""

    name: str
    mode: str
    key: tuple[str, ...]
    sql: str
    batches: tuple[Batch, ...]


def _cases() -> tuple[Case, ...]:
    text = (Path(__file__).parent / "cases.toml").read_text(encoding="utf-8")
    return tuple(
        Case(
            case["name"],
            case["mode"],
            tuple(case["key"]),
            case["sql"],
            tuple(Batch(item["changes"], tuple(item["effects"])) for item in case["batch"]),
        )
        for case in tomllib.loads(text)["case"]
    )


CASES = _cases()
