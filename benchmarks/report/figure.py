"""What a measured number is: its name, its unit and what it has to reach. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """What a figure has to reach; ``at_least`` says on which side."""

    value: float
    at_least: bool

    def met(self, measured: float) -> bool:
        """Whether a figure is good enough. Upper limits are strict: less than 150 MB."""
        return measured >= self.value if self.at_least else measured < self.value


class Figure(NamedTuple):
    """One number of ``results.json``."""

    name: str
    what: str
    unit: str
    digits: int = 0
    target: Target | None = None


def at_least(value: float) -> Target:
    """A lower limit."""
    return Target(value, at_least=True)


def below(value: float) -> Target:
    """An upper limit."""
    return Target(value, at_least=False)
