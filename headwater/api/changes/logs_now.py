"""What Kafka holds of topics now, asked once however many clients come in one moment.

Who asks while a question waits for its turn shares its answer; one that was asked before is never
given: a client's place may be newer than that.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cdc.config import Config
from cdc.kafka.broker import Broker
from headwater.api.changes.log_reader import Log, log_now


class LogsNow:
    """Use from the event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._thread = ThreadPoolExecutor(1, "logs")
        self._turn = asyncio.Lock()
        self._waiting: dict[str, asyncio.Task[Log]] = {}

    async def of(self, topic: str) -> Log:
        """Raises ``LogError`` where there is no such topic, ``RetryableError`` without Kafka."""
        if topic not in self._waiting:
            self._waiting[topic] = asyncio.create_task(self._asked(topic))
        return await asyncio.shield(self._waiting[topic])

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _asked(self, topic: str) -> Log:
        async with self._turn:
            del self._waiting[topic]
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._ask, topic)

    def _ask(self, topic: str) -> Log:
        kafka = self._config.kafka
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            return log_now(broker, topic)
