"""``headwater dead-letters``: records that were too large for Kafka, whole again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc.cli.context import configured
from cdc.cli.output import err, out, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdc.config import Config
    from cdc.events.dead_letters import DeadLetter

group = typer.Typer(
    name="dead-letters",
    help="Records that were too large for Kafka (capture.oversized), whole again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


@group.command(name="list")
def list_(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="The records as JSON.")] = False,
) -> None:
    """Every record of the topic: position, topic, size, cause. No values."""
    letters = [describe(letter) for letter in read(configured(ctx))]
    if as_json:
        print_json(letters)
        return
    from rich.table import Table

    grid = Table()
    for title in ("position", "topic", "bytes", "missing pieces", "cause"):
        grid.add_column(title, overflow="fold")
    for letter in letters:
        grid.add_row(*(str(letter[name]) for name in letter if name != "key"))
    out().print(grid)


@group.command()
def show(
    ctx: typer.Context,
    position: Annotated[str, typer.Argument(help="A position that `list` names.")],
) -> None:
    """The value of a record, byte for byte, on stdout; its topic, key and headers on stderr."""
    from cdc.errors import LogError

    for letter in read(configured(ctx)):
        if letter.position.hex() != position.upper():
            continue
        if letter.missing:
            raise LogError(
                f"{letter.missing} pieces of the record at {position} are not in Kafka",
                "they were deleted, or are still on their way: look again",
            )
        err().print(describe(letter), soft_wrap=True, markup=False)
        sys.stdout.buffer.write(letter.value)
        return
    raise LogError(f"there is no dead letter at {position}", "see headwater dead-letters list")


def read(config: Config) -> Iterator[DeadLetter]:
    """The records of a source's topic, whole, in order."""
    from cdc.events.dead_letters import whole
    from cdc.kafka.broker import Broker
    from cdc.topics import dead_letters_topic

    topic = dead_letters_topic(config.source.name)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        if topic in broker.partitions([topic]):
            start = broker.beginning_offsets([topic])[topic][0]
            end = broker.end_offsets([topic])[topic][0]
            yield from whole(broker.read(topic, 0, start, end))


def describe(letter: DeadLetter) -> dict[str, object]:
    """All but the value."""
    return {
        "position": letter.position.hex(),
        "topic": letter.topic,
        "key": None if letter.key is None else letter.key.decode(errors="replace"),
        "bytes": len(letter.value),
        "missing": letter.missing,
        "cause": letter.cause,
    }
