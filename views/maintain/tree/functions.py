"""What is known of functions by their names: which aggregate, which give rows, which are random.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def words(text: str) -> frozenset[str]:
    """Names that are written one behind the other."""
    return frozenset(text.split())


AGGREGATES = words(
    """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp
    every json_agg json_agg_strict json_object_agg json_object_agg_strict json_object_agg_unique
    json_object_agg_unique_strict jsonb_agg jsonb_agg_strict jsonb_object_agg
    jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict max min mode
    percentile_cont percentile_disc range_agg range_intersect_agg regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp
    string_agg sum var_pop var_samp variance xmlagg
    """
)
ROWS = words(
    """
    generate_series generate_subscripts json_array_elements json_array_elements_text json_each
    json_each_text json_object_keys json_populate_recordset json_to_recordset
    jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys
    jsonb_path_query jsonb_path_query_tz jsonb_populate_recordset jsonb_to_recordset
    regexp_matches regexp_split_to_table string_to_table unnest
    """
)
VOLATILE = words(
    """
    clock_timestamp currval dblink gen_random_uuid lastval nextval pg_advisory_lock pg_sleep random
    random_normal set_config setseed setval statement_timestamp timeofday txid_current
    array_sample array_shuffle
    pg_current_xact_id uuid_generate_v4 uuidv4 uuidv7 pg_backend_pid pg_notify
    """
)
CLOCK = words("now transaction_timestamp current_timestamp")
LOCAL_CLOCK = words("current_date current_time localtime localtimestamp")
"""The clock as the session's time zone shows it."""


def name(node: exp.Expr) -> str:
    """The name of a function, in small letters; nothing for what is none."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime):
        return node.sql_names()[0].lower()
    if isinstance(node, exp.Localtime | exp.Localtimestamp):
        return node.sql_names()[0].lower()
    return ""


def aggregates(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of an expression, not those that are computed over a window."""
    return list(_aggregates(node))


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Select):
        return
    if isinstance(node, exp.Window):
        inner: exp.Expr = node.this
        while isinstance(inner, exp.Filter | exp.WithinGroup):
            inner = inner.this
        for part in (*inner.iter_expressions(), *_window_parts(node)):
            yield from _aggregates(part)
        return
    if name(node) in AGGREGATES or isinstance(node, exp.JSONObjectAgg | exp.WithinGroup):
        yield node
        return
    for part in node.iter_expressions():
        yield from _aggregates(part)


def _window_parts(node: exp.Window) -> list[exp.Expr]:
    order = node.args.get("order")
    return [*(node.args.get("partition_by") or []), *([order] if order is not None else [])]
