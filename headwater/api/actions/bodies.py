"""What requests for actions say."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]
Text = Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")]
Key = Annotated[str, Field(min_length=1, max_length=2_000, pattern=r"^[^\x00]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Rebuild(_Body):
    """As the options of `headwater view rebuild`."""

    hold: bool = False
    new_history: bool = False
    refill: bool = False
    despite_forecast: bool = False


class Rollback(_Body):
    """Without `to`: to the last retired generation."""

    to: int | None = Field(default=None, ge=1, le=1_000_000_000)


class Replay(_Body):
    """`place` is what `headwater replay --from` takes."""

    place: Name
    archive: Annotated[str, Field(max_length=256, pattern=r"^[^\x00]*$")] = ""


class Verify(_Body):
    """As the options of `headwater verify`."""

    repair: bool = False
    timeout_s: float = Field(default=60.0, ge=0, le=3_600)


class Diff(_Body):
    """As the option of `headwater view diff`."""

    timeout_s: float = Field(default=300.0, ge=0.1, le=3_600)


class Snapshot(_Body):
    """As arguments and options of `headwater snapshot start`."""

    tables: list[Name] = Field(default_factory=list, max_length=1_000)
    views: list[Name] = Field(default_factory=list, max_length=1_000)
    where: Text = ""
    key_range: Text = ""
    workers: int | None = Field(default=None, ge=1, le=64)
    rate: Annotated[str, Field(max_length=50, pattern=r"^[^\x00]*$")] = ""
    despite_forecast: bool = False


class Resume(_Body):
    despite_forecast: bool = False


class Retry(_Body):
    """Without `keys`: all of the view. Keys are those of `name` in `GET /dead-letters`."""

    keys: list[Key] | None = Field(default=None, min_length=1, max_length=1_000)


class Discard(_Body):
    """Either `keys` or `all`; `reason` goes into the audit log."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]
    keys: list[Key] | None = Field(default=None, min_length=1, max_length=1_000)
    all: bool = False
