"""Dead letters: records and rows that could not be published or applied."""

import typer

from headwater.cli.dead_letters import capture_records, views


def register(app: typer.Typer) -> None:
    capture_records.register(app)
    views.register(app)
