"""What is done to ``headwater apply``, to the stores and to the connections between them."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.chaos.faults.engine import ENGINE_FAULTS, drawn_for_engine
from tests.chaos.servers.stores import SERVED
from tests.chaos.views.whole_path import WholePath

Fault = Callable[[WholePath, float], None]
"""Does it to the whole path of a seed; what lasts does so for so long (s)."""


def _apply_killed(whole: WholePath, _lasts_s: float) -> None:
    whole.apply.kill()
    whole.apply.start()


def _apply_alone_killed(whole: WholePath, _lasts_s: float) -> None:
    """As with ``kill -9 PID``: Spark finds out by itself."""
    whole.apply.kill(alone=True)
    whole.apply.start()


def _apply_stopped(whole: WholePath, _lasts_s: float) -> None:
    whole.apply.stop()
    whole.apply.start()


def _apply_frozen(whole: WholePath, lasts_s: float) -> None:
    whole.apply.signal(signal.SIGSTOP)
    threading.Event().wait(lasts_s)
    whole.apply.signal(signal.SIGCONT)


def _killed(store: str, whole: WholePath, lasts_s: float) -> None:
    whole.stores.kill(store)
    whole.pause(lasts_s)
    whole.stores.restart(store)


def _killed_with_apply(store: str, whole: WholePath, lasts_s: float) -> None:
    """The store is away as apply comes back."""
    whole.stores.kill(store)
    _apply_killed(whole, 0)
    whole.pause(lasts_s)
    whole.stores.restart(store)


def _cut(store: str, whole: WholePath, _lasts_s: float) -> None:
    whole.stores.proxies[store].cut()


def _stalled(store: str, whole: WholePath, lasts_s: float) -> None:
    """What was sent arrives or not, and no answer comes back."""
    proxy = whole.stores.proxies[store]
    proxy.stall()
    whole.pause(lasts_s)
    proxy.cut()
    proxy.release()


def _stalled_and_apply_killed(store: str, whole: WholePath, lasts_s: float) -> None:
    """Part of a batch is in the store."""
    proxy = whole.stores.proxies[store]
    proxy.stall()
    whole.pause(lasts_s)
    whole.apply.kill()
    proxy.cut()
    proxy.release()
    whole.apply.start()


def _rebuilt(whole: WholePath, _lasts_s: float) -> None:
    whole.rebuild()


def _killed_as_it_is_filled(store: str, whole: WholePath, lasts_s: float) -> None:
    """The store acknowledges rows of a new generation, is killed, and gets the others."""

    def kill() -> None:
        whole.pause(lasts_s / 5)
        _killed(store, whole, 0)

    whole.rebuild(store, kill)


APPLY_KILLED: Final = "apply killed"
ALONE_KILLED: Final = "apply killed, not its children"
"""These are Spark's JVM: it has to be its own."""
STORE_KILLED: Final = {store: f"{store} store killed" for store in SERVED}
_WITH_APPLY: Final = "{} store and apply killed"
_FILLED: Final = "{} store killed as it is filled"
_OF_BOTH: Final[dict[str, Fault]] = {
    APPLY_KILLED: _apply_killed,
    ALONE_KILLED: _apply_alone_killed,
    "apply stopped": _apply_stopped,
    "apply frozen": _apply_frozen,
    "view rebuilt": _rebuilt,
    **{name: partial(_killed, store) for store, name in STORE_KILLED.items()},
    **{_FILLED.format(store): partial(_killed_as_it_is_filled, store) for store in SERVED},
    **{_WITH_APPLY.format(store): partial(_killed_with_apply, store) for store in SERVED},
    **{f"{store} store cut": partial(_cut, store) for store in SERVED},
    **{f"{store} store stalled": partial(_stalled, store) for store in SERVED},
    **{
        f"apply killed while the {store} store stalls": partial(_stalled_and_apply_killed, store)
        for store in SERVED
    },
}
_OTHERS: Final = [name for name in _OF_BOTH if name != APPLY_KILLED]
WHOLE_FAULTS: Final[dict[str, Fault]] = {**_OF_BOTH, **ENGINE_FAULTS}
_STORE_KILLS: Final = frozenset(
    name.format(store) for store in SERVED for name in ("{} store killed", _WITH_APPLY, _FILLED)
)


def drawn(rng: random.Random, engine: str) -> list[str]:
    """Of a seed: apply is killed, one store is, and two more; of those that a state database keeps
    one more, and what is done to that."""
    store = rng.choice(list(STORE_KILLED.values()))
    others = rng.sample([name for name in _OTHERS if name != store], 2)
    if engine == "database":
        return [APPLY_KILLED, store, others[0], *drawn_for_engine(rng)]
    return [APPLY_KILLED, store, *others]


def apply_kills(fault: str) -> bool:
    """Whether apply is killed by it."""
    return "apply" in fault and "killed" in fault


def store_kills(fault: str) -> bool:
    """Whether a store is killed by it."""
    return fault in _STORE_KILLS
