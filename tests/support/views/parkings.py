"""What waits of a view over a hand-written log and a real store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cdc.errors import HeadwaterError
from cdc.events.codes import PLACEHOLDER
from jobs.without_mirrors.dead_letters.letter import Letter
from jobs.without_mirrors.dead_letters.topic import waiting
from jobs.without_mirrors.views import apply_views
from tests.support.events.written_topics import row, v1

if TYPE_CHECKING:
    from tests.support.views.bootstraps import Setting

ONE, TWO = '{"id":1}', '{"id":2}'


def applied(setting: Setting) -> dict[str, HeadwaterError]:
    return apply_views(setting.spark, setting.config, [setting.view], threading.Event(), True)


def parked(setting: Setting) -> dict[str, int]:
    """How many events wait, by key."""
    letters = waiting(setting.config, setting.broker, setting.view)
    found = {owner.key.decode(): len(of) for owner, of in letters.keys.items()}
    return found | {letter.id: 1 for letter in letters.keyless}


def letters_of(setting: Setting) -> list[Letter]:
    return list(waiting(setting.config, setting.broker, setting.view).open.values())


def lacking(lsn: int, id_: int) -> tuple[bytes | None, bytes | None]:
    """An UPDATE that leaves out a value that no store has."""
    return v1(lsn, 1, row(id_, PLACEHOLDER), "u")
