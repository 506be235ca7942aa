"""Which rows a snapshot takes that was asked for over HTTP.

The condition is executed with the rights of the deployment's role, and who asks may have fewer: it
is parsed as that of a signal is, and a treated column is compared with nothing, for what is
published then tells its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from cdc.config import Config
from cdc.source.postgres import identifier
from headwater.api.problems import ProblemError
from snapshots.conditions import ConditionError, simple_condition

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")


def checked_condition(config: Config, text: str) -> str:
    """The condition, written anew from what was understood. Raises ``ProblemError``."""
    try:
        written = simple_condition(text)
    except ConditionError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "wrong-filter", f"where: {error}") from None
    rules = config.source.columns.values()
    treated = sorted({name for of_table in rules for name in of_table})
    if named := next((name for name in treated if identifier(name) in written), None):
        raise _refused(f"where: {named} is a treated column")
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


def _refused(detail: str) -> ProblemError:
    hint = "use `headwater snapshot start` on the command line"
    return ProblemError(HTTPStatus.FORBIDDEN, "treated-column", detail, hint)
