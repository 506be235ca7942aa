"""Messages about alarms to ``[alerts] webhook``: a thread that looks, judges and sends.

It shares nothing with the loop of its process but what is exported, so a receiver that hangs or
refuses slows nothing down. The URL may hold a token, and is in no log line.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import structlog

from cdc.alarms.judge import Judge
from cdc.alarms.messages import Message, Messages
from cdc.alarms.sender import REFUSALS, Sender, reason_of, status_of
from cdc.log_events import LogEvent
from cdc.metrics.exposition import Sample

_EVERY_S: Final = 1.0
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0

_ALL: Final = ""

log = structlog.get_logger("alarms")


class _Pause(NamedTuple):
    """``until`` is of the monotonic clock."""

    seconds: float
    until: float


class Webhook:
    """Looks from ``start`` to ``close``. ``samples`` is what the process exports now, ``process``
    its name; ``judge`` and ``every_s`` are others in tests only."""

    def __init__(
        self,
        url: str,
        secret_file: str,
        process: str,
        samples: Callable[[], Iterable[Sample]],
        judge: Judge | None = None,
        every_s: float = _EVERY_S,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self._sender, self._process = Sender(url, secret_file), process
        self._samples, self._judge = samples, judge or Judge(by_apply=process == "apply")
        self._messages = Messages(self._judge)
        self._every_s, self._first_pause_s = every_s, first_pause_s
        self._pauses: dict[str, _Pause] = {}
        """By id of a message that was refused, and by ``_ALL`` while nobody answers."""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Ask it to end; a message under way is not waited for."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            try:
                self.look(time.time())
            except Exception as error:  # a bug here must not silence the alarms after it
                log.error(LogEvent.ALARMS_NOT_JUDGED, error=repr(error))

    def look(self, now_s: float) -> None:
        """Judge, and send what is due, critical alarms first. A message that the receiver refuses
        does not hold up the others; where nobody answers, they wait with it."""
        firing = self._judge.look(now_s, self._samples())
        due = sorted(self._messages.due(now_s, firing), key=lambda one: one.alarm.severity)
        kept = {_ALL, *(message.id for message in due)}
        self._pauses = {key: one for key, one in self._pauses.items() if key in kept}
        for message in due:
            if self._ending.is_set() or self._pauses_now(_ALL):
                return
            if not self._pauses_now(message.id):
                self._send(message)

    def _pauses_now(self, key: str) -> bool:
        pause = self._pauses.get(key)
        return pause is not None and time.monotonic() < pause.until

    def _send(self, message: Message) -> None:
        told = {"code": message.alarm.code, "status": message.status}
        try:
            body = json.dumps(message.document(self._process)).encode()
            self._sender.send(message.id, body)
        except REFUSALS as error:
            answered = status_of(error) is not None
            if answered:
                self._pauses.pop(_ALL, None)
            again_s = self._pause(message.id if answered else _ALL)
            log.warning(LogEvent.ALARM_NOT_SENT, **told, reason=reason_of(error),
                        host=self._sender.host, again_in_s=again_s)  # fmt: skip
            return
        self._pauses.pop(_ALL, None)
        self._messages.sent(message)
        log.info(LogEvent.ALARM_SENT, **told, source=message.source)

    def _pause(self, key: str) -> float:
        """Begin the next one, twice as long as the last; its length."""
        last = self._pauses.get(key)
        seconds = min(2 * last.seconds if last else self._first_pause_s, _LONGEST_PAUSE_S)
        self._pauses[key] = _Pause(seconds, time.monotonic() + seconds)
        return seconds
