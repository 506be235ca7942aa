"""``[verify]`` of a ``headwater.toml``: how often views are compared with their source."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from cdc.config.stores import Section
from cdc.config.values import Period


class Verify(Section):
    """In seconds, 0 for never: ``every`` is from check to check of a view, each of some keys;
    within ``all_within`` each key is checked once."""

    every: Period = 0.0
    all_within: Period = 0.0

    @model_validator(mode="after")
    def _checked_at_all(self) -> Self:
        if self.all_within and not self.every:
            raise ValueError('all_within needs every: write every = "10min"')
        return self
