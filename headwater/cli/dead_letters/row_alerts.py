"""Dead letters of alerts on rows: messages that a webhook did not take."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cdc.errors import UsageError
from headwater.cli.dead_letters.entry import Entry, Settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc.config import Config
    from headwater.alerts.letters import Letter

PREFIX: Final = "alerts."
"""Goes before the name of an alert where a view's may stand: those have no dot."""
ID: Final = "msg_"
"""How ids of messages begin."""


def entries(config: Config, alert: str = "") -> list[Entry]:
    """Those of an alert, ``alerts.NAME``, or of all, in the order in which they were put aside."""
    return [told(letter) for letter in _open(config, alert)]


def told(letter: Letter) -> Entry:
    """A letter with its body."""
    topic, partition, offset = letter.place.rsplit("-", 2)
    return Entry(
        letter.id,
        PREFIX + letter.alert,
        topic,
        letter.key,
        letter.cause,
        datetime.fromtimestamp(letter.since_ms / 1000, UTC),
        {"partition": int(partition), "offset": int(offset), "bytes": len(letter.body)},
        letter.body,
    )


def settle(config: Config, kind: str, alert: str, wanted: Sequence[Entry] | None) -> Settled:
    """``retry``, which sends them in order with the ids that they had, or ``discard`` some; None:
    all. What follows a message of a key that is refused again is left, too."""
    from cdc.alarms.sender import REFUSALS, Sender, reason_of
    from headwater.alerts.letters import LetterBox

    ids = None if wanted is None else {one.id for one in wanted}
    letters = [one for one in _open(config, alert) if ids is None or one.id in ids]
    sender = None
    if kind == "retry":
        declared = config.alerts.rows.get(alert.removeprefix(PREFIX))
        if declared is None:
            raise UsageError(
                f"{alert} is not declared", f"put [alerts.rows] {alert.removeprefix(PREFIX)} back"
            )
        sender = Sender(declared.webhook, config.alerts.secret_of(declared))
    left: dict[str, str] = {}
    done: list[Letter] = []
    with closing(LetterBox(config)) as box:
        for letter in letters:
            name = told(letter).name
            if name in left:
                continue
            try:
                if sender is not None:
                    sender.send(letter.id, letter.body)
            except REFUSALS as error:
                left[name] = reason_of(error)
                continue
            box.settle([letter])
            done.append(letter)
    keys = {told(letter).name for letter in done} - left.keys()
    return Settled(len(done), len(keys), [{"key": k, "cause": why} for k, why in left.items()])


def refuse_unknown(config: Config, alert: str, found: Sequence[Entry]) -> None:
    """Raise ``UsageError`` for a name that no alert has, of which no letter is left either."""
    name = alert.removeprefix(PREFIX)
    if not found and name not in config.alerts.rows:
        known = ", ".join(PREFIX + one for one in config.alerts.rows) or "none"
        raise UsageError(f"there is no alert {alert}", f"declared: {known}")


def _open(config: Config, alert: str) -> list[Letter]:
    from headwater.alerts.letters import LetterBox

    with closing(LetterBox(config)) as box:
        return box.open(alert.removeprefix(PREFIX))
