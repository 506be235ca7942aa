"""What the configuration says of the source while a process runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cdc.config import Config, Source
from cdc.errors import ConfigError

_FOLLOWED: Final = ("tables", "exclude", "columns", "hash_keys", "encryption_keys")


class SourceSettings:
    """The section ``source``: which tables are captured as the file has it now, so that a table
    that was added needs no restart; which database it is as it was at the start."""

    def __init__(self, config: Config, reload: Callable[[], Config]) -> None:
        self._now, self._reload = config.source, reload

    def now(self) -> Source:
        """A file that cannot be read changes nothing: whoever looks for views says what is wrong
        with it."""
        try:
            read = self._reload().source
        except ConfigError:
            return self._now
        followed = {name: getattr(read, name) for name in _FOLLOWED}
        # For another key of a table capture is started again: its events have the old one.
        keys = {**read.keys, **self._now.keys}
        self._now = self._now.model_copy(update={**followed, "keys": keys})
        return self._now
