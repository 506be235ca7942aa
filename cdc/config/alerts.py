"""``[alerts]`` of a ``headwater.toml``: when an alarm fires, and who is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, model_validator

from cdc.alarms.signature import webhook_key
from cdc.config.stores import Section, View
from cdc.config.values import AlertedTable, Name, Period, WebhookUrl
from cdc.config.variables import is_open

_SIGNED = (
    "webhook: its messages are signed: set secret_file to a file that holds whsec_ and at least 24 "
    "bytes as base64"
)


class RowAlert(Section):
    """``[alerts.rows.NAME]``: changes of ``table``, or of the rows of ``view``, that meet ``when``
    are sent to ``webhook``.

    ``columns`` are those whose values are sent besides the key, ``*`` for all. ``secret_file`` is
    by default that of ``[alerts]``.
    """

    table: AlertedTable = ""
    view: str = ""
    when: str = Field(min_length=1)
    webhook: WebhookUrl = Field(min_length=1, repr=False)
    secret_file: str = ""
    columns: tuple[str, ...] = ()
    give_up_after: Period = 86_400.0
    at_once: int = Field(default=8, ge=1, le=64)

    @property
    def subject(self) -> str:
        """The table or the view."""
        return self.view or self.table

    @model_validator(mode="after")
    def _is_of_one(self) -> RowAlert:
        if not self.subject:
            raise ValueError('table: is required: name one, or a view with view = "..."')
        if self.table and self.view:
            raise ValueError("view: stands beside table: an alert is of one of them")
        return self

    @model_validator(mode="after")
    def _gives_up_some_time(self) -> RowAlert:
        if self.give_up_after <= 0:
            raise ValueError('give_up_after: is 0: write "1d"')
        return self


class Alerts(Section):
    """``secret_file`` holds what messages to ``webhook`` are signed with: ``whsec_`` and base64."""

    lag_s: float = Field(default=300.0, gt=0)
    wal_volume_mb: int | None = Field(default=None, ge=1)
    webhook: WebhookUrl = Field(default="", repr=False)
    secret_file: str = ""
    rows: dict[Name, RowAlert] = Field(default={})

    def secret_of(self, alert: RowAlert) -> str:
        """The file of the secret that an alert's messages are signed with."""
        return alert.secret_file or self.secret_file

    def is_of(self, view: str) -> bool:
        """Whether some are about the rows of a view."""
        return any(one.view == view for one in self.rows.values())

    @property
    def wal_volume_bytes(self) -> int | None:
        """Size of the file system with the source's WAL, if it is declared."""
        return None if self.wal_volume_mb is None else self.wal_volume_mb << 20

    @model_validator(mode="after")
    def _messages_are_signed(self) -> Alerts:
        if self.webhook and not self.secret_file:
            raise ValueError(_SIGNED)
        for name, alert in self.rows.items():
            if not self.secret_of(alert):
                raise ValueError(f"rows.{name}.{_SIGNED}")
        return self


def refuse_unserved(alerts: Alerts, views: Mapping[str, View], kept: int, kept_days: float) -> None:
    """Raise ``ValueError`` where one is of a view that is not declared, or without changes, or
    where no earlier generations are ``kept``, for no time."""
    for name, alert in alerts.rows.items():
        if not alert.view:
            continue
        view = views.get(alert.view)
        if view is None:
            known = ", ".join(sorted(views)) or "none"
            raise ValueError(
                f"alerts.rows.{name}.view: no view {alert.view!r}; [views] has: {known}"
            )
        if not view.change_stream:
            raise ValueError(
                f"alerts.rows.{name}.view: needs change_stream = true in [views.{alert.view}]"
            )
        if not kept or not kept_days:
            needed = "apply.keep_days above 0" if kept else "apply.keep_generations of at least 1"
            raise ValueError(
                f"alerts.rows.{name}.view: needs {needed}: else a build drops changes that were "
                "not looked at yet"
            )


def secret_problems(alerts: Alerts) -> list[str]:
    """What is wrong with the files of secrets. Their text is in no message."""
    of_rows = any(not one.secret_file for one in alerts.rows.values())
    found = {"alerts.secret_file": alerts.secret_file} if alerts.webhook or of_rows else {}
    for name, alert in alerts.rows.items():
        if alert.secret_file:
            found[f"alerts.rows.{name}.secret_file"] = alert.secret_file
    return [problem for setting, file in found.items() for problem in _problems(setting, file)]


def _problems(setting: str, file: str) -> list[str]:
    path, named = Path(file), f"{setting}: {file}"
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
