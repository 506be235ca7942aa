"""Which forms of events views can read. Pure."""

from __future__ import annotations

from cdc.errors import ViewError
from cdc.events.form import OURS, Form, told


def refuse_unread(form: Form) -> None:
    """Raise ``ViewError`` for a form of ``[events]`` that views do not read."""
    if form == OURS:
        return
    of = told(form.recorded) if form.recorded else "skipped.operations or tombstones.on.delete"
    raise ViewError(
        f"views read events in the default form alone, and [events] has {of}",
        "remove [events], or remove [views] and let other consumers read the topics",
    )
