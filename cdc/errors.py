"""Every error Headwater raises on purpose, in one tree.

    HeadwaterError
    ├── UsageError            exit code 2: the command line or the configuration is wrong
    │   └── ConfigError       all problems of a headwater.toml at once
    ├── FatalError            exit code 1: needs a person; trying again gives the same answer
    │   ├── ProtocolError     bytes that are not the pgoutput protocol
    │   ├── SourceError       the database's settings, privileges, tables, slot or publication
    │   ├── LogError          what Kafka holds does not fit the source, or Kafka refused a record
    │   ├── ViewError         a view's SQL, key, schema or checkpoint
    │   ├── SinkError         a store refused a write for good
    │   ├── StateError        the state database is not what views can be kept in
    │   └── StackError        a local server would not start
    └── RetryableError        a connection that may come back: retried with a bounded backoff

``message`` is a clause without a period: what is wrong, and where (table, LSN,
topic-partition-offset). ``hint`` says what to do next, as a sentence of its own. Anything else that
escapes is a bug and is shown as one. No message holds a secret or a row's values.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z]+(?=[ ,:]|$)")
_ENDS = (".", "!", "?", ";")


def sentence(text: str) -> str:
    """A clause as a sentence: with a capital, unless it begins with a name, and a period. A
    statement of SQL stays as it is, to be copied."""
    if not text or text.partition(" ")[0].isupper():
        return text
    started = text[0].upper() + text[1:] if _WORD.match(text) else text
    return started if started.endswith(_ENDS) else f"{started}."


def one_line(message: str, hint: str) -> str:
    """``Message. Hint.``, for logs and notes; the hint of a message with more lines has its own."""
    if not hint:
        return message
    if "\n" in message:
        return two_lines(message, hint)
    return f"{message}{'' if message.endswith(_ENDS) else '.'} {sentence(hint)}"


def two_lines(message: str, hint: str) -> str:
    """The message, and the hint in an indented line below it, for people at a terminal."""
    return f"{message}\n  hint: {sentence(hint)}" if hint else message


class HeadwaterError(Exception):
    """Base of the tree. ``str(error)`` is one line: ``Message. Hint.``"""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = sentence(hint)

    def __str__(self) -> str:
        return one_line(self.message, self.hint)


class UsageError(HeadwaterError):
    """The command was called wrongly."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration is wrong; the message lists every problem, one a line."""


class FatalError(HeadwaterError):
    """A person has to act before the same call can succeed."""


class ProtocolError(FatalError):
    """Bytes that do not follow the pgoutput protocol (truncated, unknown, inconsistent)."""


class SourceError(FatalError):
    """The source database is not as capture needs it."""


class LogError(FatalError):
    """Kafka's contents contradict the source, or Kafka refused a record for good."""


class ViewError(FatalError):
    """A view's declaration, schema or checkpoint does not hold."""


class SinkError(FatalError):
    """A store refused a write in a way that trying again does not change."""


class StateError(FatalError):
    """The state database does not start, is another one, lacks something, or is in use."""


class StackError(FatalError):
    """A server of ``headwater up`` would not start or stop."""


class RetryableError(HeadwaterError):
    """A connection failed in a way that may pass."""
