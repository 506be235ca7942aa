"""Who asks: a role, and the tables whose row values may be shown. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

ALL: Final = "*"


class Role(StrEnum):
    """A viewer sees figures, an operator may also act. Row values are granted by table, to both."""

    VIEWER = "viewer"
    OPERATOR = "operator"


class Principal(NamedTuple):
    """``tables`` are ``schema.table``, ``schema.*`` or ``*``. ``proof`` is of the password or token
    that it came with: it changes when that is replaced."""

    name: str
    role: Role
    tables: frozenset[str]
    proof: str = ""

    def may_see(self, table: str) -> bool:
        """Whether row values of ``schema.table`` may be shown to it."""
        schema = table.partition(".")[0]
        return not self.tables.isdisjoint((ALL, table, f"{schema}.{ALL}"))


LOCAL: Final = Principal("local", Role.OPERATOR, frozenset((ALL,)))
"""Who comes over loopback to a server without a file of users: an account of this machine."""
