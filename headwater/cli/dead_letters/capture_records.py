"""``headwater dead-letters``: records that were too large for Kafka, whole again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common.context import configured
from headwater.cli.common.output import err, out, print_json

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
    """Every record of the topic: position, table, key, size, time, cause. No other values.

    Rows of a snapshot share their position: `show` takes --number, in the order of this list.
    """
    from headwater.cli.dead_letters.capture_display import described, overview

    config = configured(ctx)
    source = config.source.name
    if as_json:
        print_json([described(letter, source) for letter in read(config)])
        return
    grid = overview(read(config), source)
    if grid.row_count:
        out().print(grid)
    else:
        err().print("no dead letters: every record was small enough for Kafka")


@group.command()
def show(
    ctx: typer.Context,
    position: Annotated[str, typer.Argument(help="A position that `list` names.")],
    number: Annotated[
        int | None,
        typer.Option("--number", metavar="N", min=1, help="Which of several at that position."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, the value in it as it was written.")
    ] = False,
) -> None:
    """A record: what it is, and its value.

    On a terminal the value is laid out, and long texts in it are cut. Elsewhere it is written to
    stdout byte for byte, and what it is to stderr.

    \b
    Examples:
      headwater dead-letters show 000000000231E2A800000001
      headwater dead-letters show 000000000231E2A800000001 > event.json
      headwater dead-letters show 000000000231E2A800000001 --json | jq .value.after
    """
    from headwater.cli.common.records import show as shown
    from headwater.cli.dead_letters.capture_display import document, fields

    config = configured(ctx)
    letter, source = _whole_letter(config, position, number), config.source.name
    if as_json:
        sys.stdout.write(document(letter, source))
    else:
        shown(fields(letter, source), letter.value)


def _whole_letter(config: Config, position: str, number: int | None) -> DeadLetter:
    """The record of a number at a position, the only one without. Raises ``LogError`` when there is
    none, or pieces are missing."""
    from cdc.errors import LogError

    chosen, count = None, 0
    for letter in read(config):  # one value is held at most
        if letter.position.hex() == position.upper():
            count += 1
            chosen = letter if count == (number or 1) else chosen
    if number is None and count > 1:
        raise LogError(
            f"{count} dead letters are at {position}, as rows of a snapshot are",
            f"--number 1 to --number {count} shows one, as headwater dead-letters list has them",
        )
    if chosen is None:
        which = f"dead letter {number}" if count else "dead letter"
        raise LogError(f"there is no {which} at {position}", "see headwater dead-letters list")
    if chosen.missing:
        raise LogError(
            f"{chosen.missing} pieces of the record at {position} are not in Kafka",
            "they were deleted, or are still on their way: look again",
        )
    return chosen


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
