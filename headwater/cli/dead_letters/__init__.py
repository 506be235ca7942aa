"""Dead letters: records and rows that could not be published or applied."""

import typer

from headwater.cli.dead_letters import command


def register(app: typer.Typer) -> None:
    app.add_typer(command.group)
