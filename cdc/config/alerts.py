"""``[alerts]`` of a ``headwater.toml``: when an alarm fires, and who is told."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from cdc.alarms.signature import webhook_key
from cdc.config.stores import Section
from cdc.config.values import WebhookUrl
from cdc.config.variables import is_open


class Alerts(Section):
    """``secret_file`` holds what messages to ``webhook`` are signed with: ``whsec_`` and base64."""

    lag_s: float = Field(default=300.0, gt=0)
    wal_volume_mb: int | None = Field(default=None, ge=1)
    webhook: WebhookUrl = Field(default="", repr=False)
    secret_file: str = ""

    @property
    def wal_volume_bytes(self) -> int | None:
        """Size of the file system with the source's WAL, if it is declared."""
        return None if self.wal_volume_mb is None else self.wal_volume_mb << 20

    @model_validator(mode="after")
    def _messages_are_signed(self) -> Alerts:
        if self.webhook and not self.secret_file:
            raise ValueError(
                "webhook: its messages are signed: set secret_file to a file that holds whsec_ and "
                "at least 24 bytes as base64"
            )
        return self


def secret_problems(alerts: Alerts) -> list[str]:
    """What is wrong with the file of the secret. Its text is in no message."""
    if not alerts.webhook:
        return []
    path, named = Path(alerts.secret_file), f"alerts.secret_file: {alerts.secret_file}"
    try:
        open_to_all, text = is_open(path), path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return [f"{named}: no such file: write whsec_ and at least 24 bytes as base64 into it"]
    except (OSError, UnicodeDecodeError) as error:
        return [f"{named}: cannot be read: {getattr(error, 'strerror', None) or 'no text'}"]
    if open_to_all:
        return [f"{named}: every account of this machine can read it: chmod 600 it"]
    try:
        webhook_key(text)
    except ValueError as error:
        return [f"{named}: {error}"]
    return []
