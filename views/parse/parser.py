"""PostgreSQL's SQL as sqlglot reads it, but for what its own dialect makes too much of. Pure."""

from __future__ import annotations

from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from views.maintain.tree.parser import VerbatimParser

FUNCTIONS = frozenset(
    """
    abs acos acosh any_value array_agg array_append array_cat array_length array_position
    array_prepend array_remove array_reverse array_sort array_to_string ascii asin asinh atan
    atan2 atanh avg bit_and bit_length bit_or bit_xor bool_and bool_or btrim cbrt ceil ceiling
    char character_length char_length chr concat concat_ws corr cos cosh cot count covar_pop
    covar_samp cume_dist current_database current_schema current_schemas current_user date
    date_add date_bin date_trunc decode degrees dense_rank div encode exp extract factorial
    first_value floor format generate_series gen_random_uuid get_bit host initcap jsonb_contains
    jsonb_exists jsonb_object_agg json_agg json_extract_path json_extract_path_text json_object
    json_object_agg json_strip_nulls justify_days justify_hours justify_interval lag last_value
    lead left length ln log log10 lower lpad ltrim make_interval make_time make_timestamp max md5
    min mod mode normalize now nth_value ntile overlay percentile_cont percentile_disc
    percent_rank pi position pow power radians random rank regexp_count regexp_instr regexp_like
    regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy repeat replace reverse right round row_number rpad rtrim
    session_user sha256 sha384 sha512 sign sin sinh split_part sqrt starts_with stddev stddev_pop
    stddev_samp string_agg string_to_array strpos substr substring sum tan tanh time timestamp
    to_date to_hex to_number to_timestamp translate trunc unnest upper variance var_pop var_samp
    version width_bucket
    """.upper().split()
)
"""Functions of PostgreSQL that the parser may know by name: what else it knows is of other systems.
Not ``convert``, ``date_part``, ``like`` and ``to_char``, of which it makes something else."""
_SYNTAX = frozenset(
    """
    array case cast coalesce current_catalog current_date current_role current_time
    current_timestamp exists greatest grouping json_objectagg json_table json_value least
    localtime localtimestamp nullif trim xmlelement xmltable
    """.upper().split()
)
_OURS = {"STRUCT", "UUID"}  # in collect_list, as Spark has it; a cast, written as a function
_TAKEN = FUNCTIONS | _SYNTAX | _OURS


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
