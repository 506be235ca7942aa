"""Which forms of events views can be kept by. Pure."""

from __future__ import annotations

from cdc.errors import ViewError
from cdc.events.form import Form


def refuse_unread(form: Form) -> None:
    """Raise ``ViewError`` where changes are not published: a view would go on without them, and
    nothing would tell."""
    if not form.has_events:
        raise ViewError(
            f'views need whole events, and [events] has content = "{form.content}"',
            "keep the views by a second configuration, with another source.name and slot, or "
            "remove content from [events]",
        )
    if not form.skipped:
        return
    codes = ",".join(sorted(form.skipped))
    of_preset = ' (preset = "debezium" skips t, TRUNCATE)' if form.skipped == {"t"} else ""
    raise ViewError(
        f"views need every change, and [events] skips operations: {codes}{of_preset}",
        'set skipped.operations = "none" in [events], or remove [views]',
    )
