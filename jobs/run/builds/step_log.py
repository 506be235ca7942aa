"""What is being done with a view, for whoever waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Steps:
    """Lines, and how many rows the step at work has done, of ``expected`` (0: nobody knows).
    Written by one thread, read by others."""

    lines: list[str] = field(default_factory=list)
    rows: int = 0
    expected: int = 0

    def step(self, line: str) -> None:
        """Something else is being done from now on."""
        self.rows = self.expected = 0
        self.lines.append(line)

    def reading(self, rows: int, expected: int = 0) -> None:
        """So many rows were done in this step."""
        self.rows, self.expected = rows, expected
