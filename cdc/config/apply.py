"""``[apply]`` and ``[tables."schema.table"]`` of a ``headwater.toml``: how views are maintained."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdc.config.stores import Section


class Table(Section):
    """What is said of one table of the source."""

    mirror: bool = True
    """False: its views are of one table, and kept without a copy of it in the state database."""


class Apply(Section):
    """How views are maintained: what moves volume is Spark's, what is keyed the state database's.

    ``state_dsn`` names a PostgreSQL for that in place of the one which apply starts itself.
    """

    state: str = "./.headwater/views"
    state_dsn: str = Field(default="", repr=False)
    engine: Literal["delta", "database"] = "database"
    whole_rows: int = Field(default=100_000, ge=1)
    """Of a view that is computed whole; one that has more is refused."""
    clock_s: float = Field(default=60.0, gt=0)
    """Between two computations of a view that reads the clock."""
    master: str = "local[*]"
    max_offsets_per_trigger: int | None = Field(default=None, ge=1)
    retry_s: float = Field(default=60.0, ge=0)
    keep_generations: int = Field(default=1, ge=0)
    keep_days: float = Field(default=7.0, ge=0)
    keep_changes: int = Field(default=1_000_000, ge=0)
    keep_changes_s: float = Field(default=86_400.0, gt=0)
    """Of the changes of a view that has a change stream, as the one before it."""
    dlq_limit: int = Field(default=100, ge=0, le=1000)
    spark: dict[str, str] = Field(default={}, repr=False)
