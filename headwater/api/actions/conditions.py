"""Which rows a snapshot takes that was asked for over HTTP.

The condition is executed with the rights of the deployment's role, and who asks may have fewer: it
is parsed as that of a signal is, and compares columns that are published as they are alone: what is
published of a treated column, or of one that is left out, tells its value otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from cdc.config import Config
from headwater.api.problems import ProblemError
from headwater.api.tables import CapturedTable
from snapshots.conditions import ConditionError, simple_condition

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_EXACT: Final = re.compile(r'([^".*\s]+\.)?[^".*\s]+')
_NAME: Final = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")+)\"""")
"""A constant, or a column, as they are written anew."""


def qualified(table: str) -> str:
    """``schema.table`` of a name of one table; a pattern as it is."""
    return f"public.{table}" if _EXACT.fullmatch(table) and "." not in table else table


def is_pattern(table: str) -> bool:
    """Whether it is, or may be, more than one table."""
    return not _EXACT.fullmatch(table)


def checked_condition(
    text: str, tables: Iterable[str], find: Callable[[str], CapturedTable | None]
) -> str:
    """The condition, written anew from what was understood. Blocks where ``find`` does. Raises
    ``ProblemError``."""
    try:
        written = simple_condition(text)
    except ConditionError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-filter", f"where: {error}") from None
    names = {one[1].replace('""', '"') for one in _NAME.finditer(written) if one[1]}
    for table in tables:
        found = None if is_pattern(table) else find(table)
        if found is None:
            raise _refused(f"where: {table} is not the name of a captured table", "unknown-table")
        plain = {one.name for one in found.relation.columns if one.treatment is None}
        if hidden := sorted(names - plain):
            raise _refused(f"where: {table} has no column {hidden[0]} that is published as it is")
    return written


def refuse_key_range(config: Config, tables: Iterable[str]) -> None:
    """Raise ``ProblemError`` for a table with treated columns, which may be those of its key, and
    for a pattern, which may name one."""
    treated = config.source.columns.keys()
    for table in tables if treated else ():
        if not _PLAIN.fullmatch(table):
            raise _refused(f"key_range: {table} is not schema.table in small letters")
        if not treated.isdisjoint((table, f"public.{table}")):
            raise _refused(f"key_range: {table} has treated columns")


def _refused(detail: str, kind: str = "treated-column") -> ProblemError:
    hint = "use `headwater snapshot start` on the command line"
    return ProblemError(HTTPStatus.FORBIDDEN, kind, detail, hint)
