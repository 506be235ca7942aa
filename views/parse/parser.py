"""PostgreSQL's SQL as sqlglot reads it, but for what its own dialect makes too much of. Pure."""

from __future__ import annotations

from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from views.function_names import AGGREGATES, BUILTIN, CLOCK, LOCAL_CLOCK, VOLATILE, words
from views.maintain.tree.parser import VerbatimParser

_SYNTAX = words(
    """
    btrim case cast char current_catalog current_database current_role current_schema
    current_schemas current_user exists extract get_bit json_extract_path json_extract_path_text
    json_objectagg json_table json_value jsonb_contains jsonb_exists normalize overlay position
    session_user time timestamp version xmltable
    """
)
"""What of PostgreSQL is no plain function of a row: syntax, types, the session."""
_REMADE = words("convert date_part to_char")
"""Functions that the parser makes something else of."""
_OURS = words("struct uuid")
"""In collect_list, as Spark has it; a cast, written as a function."""
_TAKEN = {
    name.upper()
    for name in (BUILTIN | AGGREGATES | VOLATILE | CLOCK | LOCAL_CLOCK | _SYNTAX | _OURS) - _REMADE
}
"""What the parser may know by name: what else it knows is of other systems."""


class _Parser(VerbatimParser):
    """As the engine of the state database reads it, but that functions are told apart by what they
    are, for Spark has other names for them. ``date_part`` is float8 and no EXTRACT; the template
    of ``to_char`` stays PostgreSQL's. A function that PostgreSQL has not stays a call by name."""

    FUNCTIONS = {  # noqa: RUF012
        name: build for name, build in PostgresParser.FUNCTIONS.items() if name in _TAKEN
    }
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse for name, parse in PostgresParser.FUNCTION_PARSERS.items() if name in _TAKEN
    }


class PostgresAsWritten(Postgres):
    Parser = _Parser
